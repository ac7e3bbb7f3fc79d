-- How often a settled outcome was taken back.
SELECT count FROM idempotency_purge WHERE one = 1;
