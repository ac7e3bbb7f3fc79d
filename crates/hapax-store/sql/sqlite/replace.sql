-- Writes every column but the id, the scope and the key, if nobody moved the row first.
UPDATE idempotency_keys
   SET version = ?5, state = ?6, fingerprint = ?7, principal = ?8, on_lost = ?9, lease_ms = ?10,
       epoch = ?11, lease_owner = ?12, lease_until = ?13, doubt = ?14, content_hash = ?15,
       request_method = ?16, request_path = ?17, request_content_type = ?18, request_body = ?19,
       request_body_apart = ?20, response_status_code = ?21, response_headers = ?22,
       response_body = ?23, response_body_apart = ?24, created_at = ?25, expires_at = ?26,
       completed_at = ?27, subject = ?28, request_masks = ?29, purge_at = NULL
 WHERE tenant_id = ?1 AND id = ?2 AND version = ?30
   AND route_pattern = ?3 AND idempotency_key = ?4;
