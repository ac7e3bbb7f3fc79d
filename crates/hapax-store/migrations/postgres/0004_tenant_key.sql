-- The keys that seal a tenant's bodies, each wrapped by a master key which is never stored.
CREATE TABLE tenant_key (
    tenant_id uuid NOT NULL,
    -- Unique per tenant, so that of two nodes that add a key only one can.
    number bigint NOT NULL,
    key_id uuid NOT NULL,
    kek_id text NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamptz NOT NULL,

    CONSTRAINT tenant_key_pkey PRIMARY KEY (tenant_id, number),
    CONSTRAINT number_is_positive CHECK (number > 0),
    CONSTRAINT kek_id_length CHECK (octet_length(kek_id) BETWEEN 1 AND 64)
);

CREATE INDEX idx_tenant_key_kek ON tenant_key (kek_id, tenant_id, number);

ALTER TABLE tenant_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_key FORCE ROW LEVEL SECURITY;

-- The app reads and adds keys of the tenant it serves. It cannot change or delete one.
CREATE POLICY tenant_key_isolation ON tenant_key
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);

-- Whoever rotates the master key or deletes a tenant's keys serves every tenant. It cannot read their bodies.
CREATE POLICY tenant_key_administration ON tenant_key
    FOR ALL TO hapax_janitor
    USING (true)
    WITH CHECK (true);

REVOKE ALL ON tenant_key FROM PUBLIC;
GRANT SELECT, INSERT ON tenant_key TO hapax_app;
GRANT SELECT, DELETE ON tenant_key TO hapax_janitor;
GRANT UPDATE (kek_id, wrapped) ON tenant_key TO hapax_janitor;
