-- The spaces in which a tenant has records, in order: one step in the index for each, however many records it has.
WITH RECURSIVE space (name) AS (
    (SELECT route_pattern FROM idempotency_keys
      WHERE tenant_id = $1::uuid AND route_pattern <> ''
      ORDER BY route_pattern LIMIT 1)
    UNION ALL
    SELECT (SELECT route_pattern FROM idempotency_keys
             WHERE tenant_id = $1::uuid AND route_pattern <> '' AND route_pattern > name
             ORDER BY route_pattern LIMIT 1)
      FROM space
     WHERE name IS NOT NULL
)
SELECT name FROM space WHERE name IS NOT NULL LIMIT $2::bigint;
