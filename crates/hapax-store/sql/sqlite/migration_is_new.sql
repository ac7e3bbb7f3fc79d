-- Whether the file has nothing in it yet.
SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema);
