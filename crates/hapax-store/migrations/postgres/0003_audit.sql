-- The audit trail, and what erasing needs: a state for erased rows, and whom a row is about.
CREATE TABLE audit_log (
    tenant_id uuid NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    action text NOT NULL,
    actor text,
    key_id uuid,
    route_pattern text,
    details jsonb NOT NULL DEFAULT '{}',

    -- In the order it is read, and with the tenant in it: no tenant learns of another's rows from a collision.
    CONSTRAINT audit_log_pkey PRIMARY KEY (tenant_id, at, id),
    CONSTRAINT action_length CHECK (octet_length(action) BETWEEN 1 AND 64),
    CONSTRAINT actor_length CHECK (octet_length(actor) <= 1024),
    CONSTRAINT details_is_an_object CHECK (jsonb_typeof(details) = 'object')
);

CREATE INDEX idx_audit_at ON audit_log (at, id);
CREATE INDEX idx_audit_key ON audit_log (tenant_id, key_id, at, id) WHERE key_id IS NOT NULL;

ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_log FORCE ROW LEVEL SECURITY;

CREATE POLICY audit_log_tenant_reads ON audit_log
    FOR SELECT TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
CREATE POLICY audit_log_tenant_adds ON audit_log
    FOR INSERT TO hapax_app
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);

-- The sweeper notes what it did, and nothing else; it removes what is old without seeing what it says.
CREATE POLICY audit_log_sweep_adds ON audit_log
    FOR INSERT TO hapax_janitor
    WITH CHECK (action = 'cleanup_idempotency_keys');
CREATE POLICY audit_log_sweep_finds ON audit_log
    FOR SELECT TO hapax_janitor
    USING (true);
CREATE POLICY audit_log_sweep_removes ON audit_log
    FOR DELETE TO hapax_janitor
    USING (true);

REVOKE ALL ON audit_log FROM PUBLIC;
-- Append-only: nobody of ours may change a row, and only the sweeper removes one.
GRANT SELECT, INSERT ON audit_log TO hapax_app;
GRANT SELECT (tenant_id, id, at), INSERT, DELETE ON audit_log TO hapax_janitor;

ALTER TABLE idempotency_keys
    ADD COLUMN subject bytea,
    ADD CONSTRAINT subject_is_a_sha256 CHECK (octet_length(subject) = 32),
    DROP CONSTRAINT state_word,
    ADD CONSTRAINT state_word
        CHECK (state IN ('held', 'in_doubt', 'settled', 'free', 'expired', 'erased')),
    ADD CONSTRAINT erased_is_empty CHECK (
        state <> 'erased' OR num_nonnulls(request_body, request_headers, principal, subject) = 0
    );

CREATE INDEX idx_idempotency_subject ON idempotency_keys (tenant_id, subject, created_at, id)
    WHERE subject IS NOT NULL;

GRANT UPDATE (subject) ON idempotency_keys TO hapax_janitor;
