-- Batches of all tenants that did not end and whose time has come, those that waited longest first.
SELECT next_at, tenant_id, batch_id, status, attempt
  FROM {schema}_t1_batches
 WHERE status IN ('queued', 'submitted', 'collecting') AND next_at <= ?1
 ORDER BY next_at, batch_seq
 LIMIT ?2;
