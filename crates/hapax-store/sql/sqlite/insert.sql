-- Writes a new row if the key has none; otherwise changes nothing.
INSERT INTO idempotency_keys (
    tenant_id, id, route_pattern, idempotency_key, version, state, fingerprint, principal, on_lost,
    lease_ms, epoch, lease_owner, lease_until, doubt, content_hash, request_method, request_path,
    request_content_type, request_body, request_body_apart, response_status_code, response_headers,
    response_body, response_body_apart, created_at, expires_at, completed_at, subject, request_masks
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
    ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
    ?18, ?19, ?20, ?21, ?22,
    ?23, ?24, ?25, ?26, ?27, ?28, ?29
)
ON CONFLICT (tenant_id, id) DO NOTHING;
