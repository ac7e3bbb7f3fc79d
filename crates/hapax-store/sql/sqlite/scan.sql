-- One page of a tenant's rows, newest first, from one place down to another, without freed and swept ones.
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
 WHERE tenant_id = ?1 AND (created_at, id) < (?2, ?3) AND (created_at, id) >= (?8, ?9)
   AND state NOT IN ('free', 'expired')
   AND (?10 IS NULL OR (idempotency_key >= ?10 AND idempotency_key < ?11))
   AND (?5 IS NULL OR CASE WHEN state = 'held' AND on_lost = 'hold' AND lease_until <= ?7 THEN 'in_doubt' ELSE state END = ?5)
 ORDER BY created_at DESC, id DESC
 LIMIT ?6;
