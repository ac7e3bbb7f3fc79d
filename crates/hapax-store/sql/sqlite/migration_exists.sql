-- Whether any migration ran here.
SELECT count(1) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migration';
