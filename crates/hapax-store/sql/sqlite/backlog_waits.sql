-- Whether any moves wait.
SELECT EXISTS (SELECT 1 FROM idempotency_backlog);
