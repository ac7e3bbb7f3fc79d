-- How many of a tenant's newest records are in doubt.
SELECT count(1)
  FROM (SELECT state, on_lost, lease_until
          FROM idempotency_keys
         WHERE tenant_id = $1::uuid AND created_at > '-infinity'
         ORDER BY created_at DESC, id DESC
         LIMIT $2::bigint) AS seen
 WHERE state = 'in_doubt' OR (state = 'held' AND on_lost = 'hold' AND lease_until <= $3::timestamptz);
