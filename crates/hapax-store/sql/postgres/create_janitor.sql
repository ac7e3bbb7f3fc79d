-- Creates the role that sweeps and keeps tokens, unless somebody did at the same moment.
DO $$
BEGIN
    CREATE ROLE hapax_janitor NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOINHERIT;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;
