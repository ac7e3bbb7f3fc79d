-- What is stored under these ids of one tenant.
SELECT id, tenant_id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost, lease_ms,
       epoch, lease_owner, lease_until, doubt,
       content_hash, request_method, request_path, request_content_type, request_body,
       response_status_code, response_headers::text, response_body,
       created_at, expires_at, completed_at, subject, request_masks
  FROM idempotency_keys
 WHERE tenant_id = $1::uuid AND id = ANY($2::uuid[]);
