-- The last place that is looked at for a page of a tenant's records, if there are as many.
SELECT created_at, id
  FROM idempotency_keys
 WHERE tenant_id = $1::uuid
   AND created_at > '-infinity'
   AND (created_at, id) < ($2::timestamptz, $3::uuid)
 ORDER BY created_at DESC, id DESC
 LIMIT 1 OFFSET $4::bigint;
