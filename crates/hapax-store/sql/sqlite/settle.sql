-- Records the outcome and ends the lease if nobody moved the row first. The request stays as it is.
UPDATE idempotency_keys
   SET version = ?5, state = 'settled', epoch = NULL, lease_owner = NULL, lease_until = NULL,
       doubt = NULL, response_status_code = ?6, response_headers = ?7, response_body = ?8,
       response_body_apart = ?9, completed_at = ?10
 WHERE tenant_id = ?1 AND id = ?2 AND version = ?11
   AND route_pattern = ?3 AND idempotency_key = ?4;
