-- What is recorded for a key.
SELECT fingerprint, response_status_code, response_body
  FROM idempotency_keys
 WHERE tenant_id = $1 AND id = $2;
