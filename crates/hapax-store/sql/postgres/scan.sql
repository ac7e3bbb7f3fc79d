-- A page of one tenant's records, newest first, of so many from before the given place. Freed and swept ones are hidden.
SELECT id, tenant_id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost, lease_ms,
       epoch, lease_owner, lease_until, doubt,
       content_hash, request_method, request_path, request_content_type, request_body,
       response_status_code, response_headers::text, response_body,
       created_at, expires_at, completed_at, subject, request_masks
  FROM (SELECT id, tenant_id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost, lease_ms,
               epoch, lease_owner, lease_until, doubt,
               content_hash, request_method, request_path, request_content_type, request_body,
               response_status_code, response_headers, response_body,
               created_at, expires_at, completed_at, subject, request_masks
          FROM idempotency_keys
         WHERE tenant_id = $1::uuid
           AND created_at > '-infinity'
           AND (created_at, id) < ($2::timestamptz, $3::uuid)
         ORDER BY created_at DESC, id DESC
         LIMIT $8::bigint) AS seen
 WHERE state NOT IN ('free', 'expired')
   AND ($9::text IS NULL OR (idempotency_key COLLATE "C" >= $9 AND idempotency_key COLLATE "C" < $10::text))
   AND ($4::text IS NULL OR route_pattern = $4)
   AND ($5::text IS NULL OR CASE WHEN state = 'held' AND on_lost = 'hold' AND lease_until <= $7::timestamptz THEN 'in_doubt' ELSE state END = $5)
 ORDER BY created_at DESC, id DESC
 LIMIT $6::bigint;
