-- The spaces in which a tenant has rows, in order: one step in the index for each, however many rows it has.
WITH RECURSIVE space (name) AS (
    SELECT min(route_pattern) FROM idempotency_keys INDEXED BY idx_idempotency_route WHERE tenant_id = ?1
    UNION ALL
    SELECT (SELECT min(route_pattern) FROM idempotency_keys INDEXED BY idx_idempotency_route
             WHERE tenant_id = ?1 AND route_pattern > name)
      FROM space
     WHERE name IS NOT NULL
)
SELECT name FROM space WHERE name IS NOT NULL LIMIT ?2;
