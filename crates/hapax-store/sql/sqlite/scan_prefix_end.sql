-- The last place that is looked at for a page of a tenant's rows by their keys, if there are as many.
SELECT idempotency_key, id
  FROM idempotency_keys
 WHERE tenant_id = ?1 AND (idempotency_key, id) > (?2, ?3) AND (idempotency_key, id) <= (?5, ?6)
 ORDER BY idempotency_key, id
 LIMIT 1 OFFSET ?4;
