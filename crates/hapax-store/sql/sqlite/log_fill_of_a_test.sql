-- For a test: about six pages of the log.
INSERT INTO filler (bytes) VALUES (randomblob(20000));
