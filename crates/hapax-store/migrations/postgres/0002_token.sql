-- Access tokens: only the hash of a secret is stored.
CREATE TABLE token (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    role text NOT NULL,
    secret_sha256 bytea NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,

    CONSTRAINT token_pkey PRIMARY KEY (id),
    CONSTRAINT role_word CHECK (role IN ('owner', 'writer', 'viewer')),
    CONSTRAINT secret_is_a_sha256 CHECK (octet_length(secret_sha256) = 32)
);

ALTER TABLE token ENABLE ROW LEVEL SECURITY;
ALTER TABLE token FORCE ROW LEVEL SECURITY;

-- Whoever checks a token names it first; the app cannot list them.
CREATE POLICY token_by_id ON token
    FOR SELECT TO hapax_app
    USING (id = nullif(current_setting('hapax.token_id', true), '')::uuid);

CREATE POLICY token_administration ON token
    FOR ALL TO hapax_janitor
    USING (true)
    WITH CHECK (true);

REVOKE ALL ON token FROM PUBLIC;
GRANT SELECT ON token TO hapax_app;
GRANT SELECT, INSERT, UPDATE ON token TO hapax_janitor;
