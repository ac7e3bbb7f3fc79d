-- Access tokens, hashed. The secret itself is never stored.

CREATE TABLE token (
    id             BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    tenant_id      BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    role           TEXT    NOT NULL CHECK (role IN ('owner', 'writer', 'viewer')),
    secret_sha256  BLOB    NOT NULL CHECK (length(secret_sha256) = 32),
    created_at     INTEGER NOT NULL,
    revoked_at     INTEGER
) STRICT;

CREATE INDEX idx_token_created ON token (created_at, id);
