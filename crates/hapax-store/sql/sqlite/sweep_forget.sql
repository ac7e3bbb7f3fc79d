-- Deletes rows whose grace is over, at most so many. Returns whose they were.
DELETE FROM idempotency_keys
 WHERE rowid IN (
    SELECT rowid FROM idempotency_keys
     WHERE purge_at IS NOT NULL AND purge_at <= ?1
     ORDER BY purge_at
     LIMIT ?2
 )
RETURNING tenant_id;
