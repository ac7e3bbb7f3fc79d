-- What ran here, by number and name.
SELECT number, name FROM schema_migration ORDER BY number;
