-- The row with this id, if it is this tenant's, its large bodies included.
SELECT id, tenant_id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost,
       lease_ms, epoch, lease_owner, lease_until, doubt, content_hash, request_method, request_path,
       request_content_type,
       CASE request_body_apart WHEN 0 THEN request_body ELSE (
           SELECT body FROM idempotency_body AS apart
            WHERE apart.tenant_id = row.tenant_id AND apart.id = row.id AND apart.part = 'request'
       ) END,
       request_body_apart, response_status_code, response_headers,
       CASE response_body_apart WHEN 0 THEN response_body ELSE (
           SELECT body FROM idempotency_body AS apart
            WHERE apart.tenant_id = row.tenant_id AND apart.id = row.id AND apart.part = 'response'
       ) END,
       response_body_apart, created_at, expires_at, completed_at, subject, request_masks
  FROM idempotency_keys AS row
 WHERE tenant_id = ?1 AND id = ?2;
