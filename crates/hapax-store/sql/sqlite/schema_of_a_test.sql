-- For a test: all that a file says of its tables, indexes, triggers and views.
SELECT type, name, sql FROM sqlite_schema ORDER BY rowid;
