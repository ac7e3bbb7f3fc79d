-- Records the answer of a held key.
UPDATE idempotency_keys
   SET version = version + 1, state = 'settled', response_status_code = $3, response_headers = '{}',
       response_body = $4, completed_at = now(), epoch = NULL, lease_owner = NULL, lease_until = NULL
 WHERE tenant_id = $1 AND id = $2 AND state = 'held';
