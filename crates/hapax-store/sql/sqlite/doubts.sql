-- How many of a tenant's newest rows are in doubt.
SELECT count(1)
  FROM (SELECT state, on_lost, lease_until
          FROM idempotency_keys
         WHERE tenant_id = ?1
         ORDER BY created_at DESC, id DESC
         LIMIT ?2)
 WHERE state = 'in_doubt' OR (state = 'held' AND on_lost = 'hold' AND lease_until <= ?3);
