-- Claims a key that nobody has. Changes nothing otherwise.
INSERT INTO idempotency_keys (
    tenant_id, id, route_pattern, idempotency_key, version, state, fingerprint, on_lost, lease_ms,
    epoch, lease_owner, lease_until,
    content_hash, request_method, request_path, request_content_type, request_body, created_at, expires_at
) VALUES (
    $1, $2, 'POST:payments', $3, 1, 'held', $4, 'retry', 60000,
    1, $2, now() + interval '60 seconds',
    '', 'POST', '/payments', 'application/json', $5, now(), now() + interval '1 hour'
)
ON CONFLICT (tenant_id, id) DO NOTHING;
