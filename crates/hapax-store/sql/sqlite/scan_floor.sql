-- The last place that is looked at for a page of a tenant's rows, if there are as many.
SELECT created_at, id
  FROM idempotency_keys
 WHERE tenant_id = ?1 AND (created_at, id) < (?2, ?3)
 ORDER BY created_at DESC, id DESC
 LIMIT 1 OFFSET ?4;
