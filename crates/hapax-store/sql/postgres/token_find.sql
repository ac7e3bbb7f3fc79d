-- The token with this id.
SELECT id, tenant_id, role, secret_sha256, created_at, revoked_at, name FROM token WHERE id = $1::uuid;
