-- The next snapshots of all tenants that miss their hash.
SELECT tenant_id, collection, id
  FROM snapshot
 WHERE hash_state = 'missing'
 ORDER BY tenant_id, seq
 LIMIT $1::bigint;
