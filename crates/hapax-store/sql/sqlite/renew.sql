-- Extends the lease if nobody moved the row first.
UPDATE idempotency_keys
   SET version = ?5, lease_until = ?6
 WHERE tenant_id = ?1 AND id = ?2 AND version = ?7
   AND route_pattern = ?3 AND idempotency_key = ?4;
