-- What ran, in order.
SELECT number, sha256 FROM schema_migration ORDER BY number;
