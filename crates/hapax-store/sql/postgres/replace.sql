-- Rewrites each record that nobody moved first, all but its id, route and key. Returns the ids written.
UPDATE idempotency_keys AS k
   SET version = n.version, state = n.state, fingerprint = n.fingerprint, principal = n.principal,
       on_lost = n.on_lost, lease_ms = n.lease_ms, epoch = n.epoch, lease_owner = n.lease_owner,
       lease_until = n.lease_until, doubt = n.doubt,
       content_hash = n.content_hash, request_method = n.request_method, request_path = n.request_path,
       request_content_type = n.request_content_type, request_body = n.request_body,
       response_status_code = n.response_status_code, response_headers = n.response_headers::jsonb,
       response_body = n.response_body,
       created_at = n.created_at, expires_at = n.expires_at, completed_at = n.completed_at,
       subject = n.subject, request_masks = n.request_masks, purge_at = NULL
  FROM unnest(
           $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bytea[], $8::bytea[], $9::text[],
           $10::bigint[], $11::bigint[], $12::uuid[], $13::timestamptz[], $14::text[],
           $15::text[], $16::text[], $17::text[], $18::text[], $19::bytea[],
           $20::integer[], $21::text[], $22::bytea[],
           $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::bytea[], $27::text[], $28::bigint[]
       ) AS n (
           id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost,
           lease_ms, epoch, lease_owner, lease_until, doubt,
           content_hash, request_method, request_path, request_content_type, request_body,
           response_status_code, response_headers, response_body,
           created_at, expires_at, completed_at, subject, request_masks, expected
       )
 WHERE k.tenant_id = $1::uuid AND k.id = ANY($2::uuid[]) AND k.id = n.id AND k.version = n.expected
   AND k.route_pattern = n.route_pattern AND k.idempotency_key = n.idempotency_key
RETURNING k.id;
