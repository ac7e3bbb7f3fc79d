-- What ran here.
SELECT number, sha256 FROM schema_migration ORDER BY number;
