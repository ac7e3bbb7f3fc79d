-- Inserts each record whose id is free, in the order of the ids. Returns the ids written.
-- What is visibly there is not tried at all: a conflicting insert would wait for whoever is settling it.
INSERT INTO idempotency_keys (
    tenant_id, id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost, lease_ms,
    epoch, lease_owner, lease_until, doubt,
    content_hash, request_method, request_path, request_content_type, request_body,
    response_status_code, response_headers, response_body,
    created_at, expires_at, completed_at, subject, request_masks
)
SELECT $1::uuid, n.id, n.route_pattern, n.idempotency_key, n.version, n.state, n.fingerprint, n.principal, n.on_lost,
       n.lease_ms, n.epoch, n.lease_owner, n.lease_until, n.doubt,
       n.content_hash, n.request_method, n.request_path, n.request_content_type, n.request_body,
       n.response_status_code, n.response_headers::jsonb, n.response_body,
       n.created_at, n.expires_at, n.completed_at, n.subject, n.request_masks
  FROM unnest(
           $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bytea[], $8::bytea[], $9::text[],
           $10::bigint[], $11::bigint[], $12::uuid[], $13::timestamptz[], $14::text[],
           $15::text[], $16::text[], $17::text[], $18::text[], $19::bytea[],
           $20::integer[], $21::text[], $22::bytea[],
           $23::timestamptz[], $24::timestamptz[], $25::timestamptz[], $26::bytea[], $27::text[]
       ) AS n (
           id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost,
           lease_ms, epoch, lease_owner, lease_until, doubt,
           content_hash, request_method, request_path, request_content_type, request_body,
           response_status_code, response_headers, response_body,
           created_at, expires_at, completed_at, subject, request_masks
       )
 WHERE NOT EXISTS (
           SELECT 1 FROM idempotency_keys AS k WHERE k.tenant_id = $1::uuid AND k.id = ANY($2::uuid[]) AND k.id = n.id
       )
    ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING id;
