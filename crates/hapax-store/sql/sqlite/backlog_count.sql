-- How many rows wait, and how many of them one ledger wrote.
SELECT count(1), count(1) FILTER (WHERE writer = ?1) FROM idempotency_backlog;
