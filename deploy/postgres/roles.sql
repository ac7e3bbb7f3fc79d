-- Makes the roles and the database that hapax needs, with the least rights that do. Run it by a superuser, as often as you like:
--
--   OWNER_PASSWORD=… LOGIN_PASSWORD=… psql --no-psqlrc -d postgres -f roles.sql
--
-- hapax_owner    logs in to migrate, and owns the database and its tables. Only `hapax migrate` uses it.
-- hapax_login    logs in for serve, worker and proxy. It has no rights but to take the next two.
-- hapax_app      nobody logs in as it: sessions that serve requests drop to it. It sees one tenant at a time.
-- hapax_janitor  nobody logs in as it: sessions that sweep and keep tokens drop to it. It sees no content.
--
-- `hapax migrate` makes the last two by itself where its login may create roles. Here they are made before it, so that the
-- owner needs no right to. docs/operations.md says what row level security promises.
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv login_password LOGIN_PASSWORD
\if :{?owner_password}
\else
    \warn 'roles.sql: OWNER_PASSWORD is not set; set both passwords and run it again'
    SELECT 1 / 0 AS "OWNER_PASSWORD is not set";
\endif
\if :{?login_password}
\else
    \warn 'roles.sql: LOGIN_PASSWORD is not set; set both passwords and run it again'
    SELECT 1 / 0 AS "LOGIN_PASSWORD is not set";
\endif

-- A superuser can keep the passwords out of the server's log, whatever it logs otherwise.
SELECT set_config(setting, word, false) AS hidden
  FROM (VALUES ('log_statement', 'none'),
               ('log_min_duration_statement', '-1'),
               ('log_min_error_statement', 'panic')) AS off (setting, word)
 WHERE (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) \g (format=unaligned tuples_only) /dev/null

SELECT format('CREATE ROLE %I %s', wanted, rights)
  FROM (VALUES ('hapax_owner', 'LOGIN INHERIT'),  -- What the owner of a database may in its schema `public` is inherited.
               ('hapax_login', 'LOGIN NOINHERIT'),
               ('hapax_app', 'NOLOGIN NOINHERIT'),
               ('hapax_janitor', 'NOLOGIN NOINHERIT')) AS role (wanted, rights)
 WHERE wanted NOT IN (SELECT rolname FROM pg_roles) \gexec

ALTER ROLE hapax_owner NOCREATEDB NOCREATEROLE PASSWORD :'owner_password';
ALTER ROLE hapax_login NOCREATEDB NOCREATEROLE PASSWORD :'login_password';
GRANT hapax_app, hapax_janitor TO hapax_login;
-- A migration gives views to hapax_janitor, and only a member may.
GRANT hapax_app, hapax_janitor TO hapax_owner;

SELECT 'CREATE DATABASE hapax OWNER hapax_owner ENCODING ''UTF8'' TEMPLATE template0'
 WHERE NOT EXISTS (SELECT 1 FROM pg_database WHERE datname = 'hapax') \gexec

-- Nobody else connects to it, or makes temporary tables in it.
REVOKE ALL ON DATABASE hapax FROM PUBLIC;
GRANT CONNECT ON DATABASE hapax TO hapax_login;
