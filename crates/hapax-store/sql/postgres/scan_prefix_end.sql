-- The last place that is looked at for a page of a tenant's records by their keys, if there are as many.
SELECT idempotency_key, id
  FROM idempotency_keys
 WHERE tenant_id = $1::uuid
   AND idempotency_key <> ''
   AND (idempotency_key COLLATE "C", id) > ($2::text, $3::uuid)
   AND (idempotency_key COLLATE "C", id) <= ($5::text, $6::uuid)
 ORDER BY idempotency_key COLLATE "C", id
 LIMIT 1 OFFSET $4::bigint;
