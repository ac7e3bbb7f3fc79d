-- Records each outcome if nobody moved the record first; what was asked stays as it is. Returns the ids written.
UPDATE idempotency_keys AS k
   SET version = n.version, state = 'settled',
       response_status_code = n.response_status_code, response_headers = n.response_headers::jsonb,
       response_body = n.response_body, completed_at = n.completed_at,
       epoch = NULL, lease_owner = NULL, lease_until = NULL, doubt = NULL, purge_at = NULL
  FROM unnest(
           $2::uuid[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::bytea[], $8::timestamptz[]
       ) AS n (id, expected, version, response_status_code, response_headers, response_body, completed_at)
 WHERE k.tenant_id = $1::uuid AND k.id = ANY($2::uuid[]) AND k.id = n.id AND k.version = n.expected
RETURNING k.id;
