-- Empties the backlog, in the transaction that files it.
DELETE FROM idempotency_backlog;
