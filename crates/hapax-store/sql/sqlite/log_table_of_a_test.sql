-- For a test: a table to fill the log with.
CREATE TABLE filler (bytes BLOB);
