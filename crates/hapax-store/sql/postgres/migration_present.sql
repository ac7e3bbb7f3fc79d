-- Whether anything ever ran here.
SELECT to_regclass('schema_migration') IS NOT NULL;
