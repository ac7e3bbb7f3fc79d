-- The token with this id, revoked or not.
SELECT id, tenant_id, role, secret_sha256, created_at, revoked_at, name FROM token WHERE id = ?1;
