-- For a test: how often the log was filled, as a reader sees it.
SELECT count(1) FROM filler;
