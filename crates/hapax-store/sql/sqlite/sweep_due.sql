-- The rows whose time is over and that no longer answer for their key, longest over first.
SELECT rowid, tenant_id, id, state, expires_at
  FROM idempotency_keys
 WHERE purge_at IS NULL AND expires_at <= ?1
   AND (state IN ('settled', 'free', 'erased')
        OR (state = 'held' AND on_lost = 'retry' AND lease_until <= ?1)
        OR (state = 'in_doubt' AND on_lost = 'retry'))
 ORDER BY expires_at
 LIMIT ?2;
