-- A page of one tenant's records by their keys, of so many from behind one place up to another.
SELECT id, tenant_id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost, lease_ms,
       epoch, lease_owner, lease_until, doubt,
       content_hash, request_method, request_path, request_content_type, request_body,
       response_status_code, response_headers::text, response_body,
       created_at, expires_at, completed_at, subject
  FROM (SELECT id, tenant_id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost, lease_ms,
               epoch, lease_owner, lease_until, doubt,
               content_hash, request_method, request_path, request_content_type, request_body,
               response_status_code, response_headers, response_body,
               created_at, expires_at, completed_at, subject
          FROM idempotency_keys
         WHERE tenant_id = $1::uuid
           AND idempotency_key <> ''
           AND (idempotency_key COLLATE "C", id) > ($2::text, $3::uuid)
           AND (idempotency_key COLLATE "C", id) <= ($9::text, $10::uuid)
         ORDER BY idempotency_key COLLATE "C", id
         LIMIT $8::bigint) AS seen
 WHERE state NOT IN ('free', 'expired')
   AND ($4::text IS NULL OR route_pattern = $4)
   AND ($5::text IS NULL OR CASE WHEN state = 'held' AND on_lost = 'hold' AND lease_until <= $7::timestamptz THEN 'in_doubt' ELSE state END = $5)
 ORDER BY idempotency_key COLLATE "C", id
 LIMIT $6::bigint;
