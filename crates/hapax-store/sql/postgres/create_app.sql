-- Creates the role of every session that serves requests, unless somebody did at the same moment.
DO $$
BEGIN
    CREATE ROLE hapax_app NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOINHERIT;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;
