-- All tokens of all tenants, oldest first.
SELECT id, tenant_id, role, secret_sha256, created_at, revoked_at, name
  FROM token
 ORDER BY created_at, id
 LIMIT ?1;
