-- Stores a token; one with the same id gets the new secret, tenant, role and name, and is no longer revoked.
INSERT INTO token (id, tenant_id, role, secret_sha256, created_at, revoked_at, name)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE
   SET tenant_id = excluded.tenant_id, role = excluded.role, secret_sha256 = excluded.secret_sha256,
       revoked_at = excluded.revoked_at, name = excluded.name;
