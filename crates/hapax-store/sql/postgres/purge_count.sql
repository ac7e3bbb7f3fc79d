-- How often an outcome was taken back.
SELECT count FROM idempotency_purge;
