-- The last place that is looked at for a page of a tenant's rows of one route, if there are as many.
SELECT created_at, id
  FROM idempotency_keys INDEXED BY idx_idempotency_route
 WHERE tenant_id = ?1 AND route_pattern = ?5 AND (created_at, id) < (?2, ?3)
 ORDER BY created_at DESC, id DESC
 LIMIT 1 OFFSET ?4;
