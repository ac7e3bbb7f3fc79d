-- The stored row of a key. Every row belongs to a tenant, and only that tenant's transactions see it.
CREATE TABLE idempotency_keys (
    tenant_id uuid NOT NULL,
    -- Made from tenant, route and key, so the primary key is their uniqueness.
    id uuid NOT NULL,
    idempotency_key text NOT NULL,
    route_pattern text NOT NULL,
    content_hash text NOT NULL DEFAULT '',

    request_method text NOT NULL DEFAULT '',
    request_path text NOT NULL DEFAULT '',
    request_content_type text NOT NULL DEFAULT '',
    request_body bytea,
    -- Always NULL for now: request headers carry credentials.
    request_headers jsonb,

    response_status_code integer,
    response_headers jsonb,
    response_body bytea,

    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    completed_at timestamptz,

    version bigint NOT NULL,
    state text NOT NULL,
    fingerprint bytea NOT NULL,
    principal bytea,
    on_lost text NOT NULL,
    lease_ms bigint NOT NULL,
    epoch bigint,
    lease_owner uuid,
    lease_until timestamptz,
    doubt text,
    -- NULL until the row is swept; then when it is forgotten.
    purge_at timestamptz,

    -- With the tenant in it, for a key that spans tenants would tell one of them what another stores. The id comes
    -- first, so that a list of ids is always looked up by them: on a new table the planner takes a tenant for one
    -- row, keeps that plan, and would walk all of a tenant's keys for every write.
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (id, tenant_id),
    CONSTRAINT idempotency_key_length CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    CONSTRAINT route_pattern_length CHECK (octet_length(route_pattern) BETWEEN 1 AND 200),
    CONSTRAINT version_is_positive CHECK (version > 0),
    CONSTRAINT lease_is_positive CHECK (lease_ms > 0),
    CONSTRAINT fingerprint_is_a_sha256 CHECK (octet_length(fingerprint) = 32),
    CONSTRAINT principal_is_a_sha256 CHECK (octet_length(principal) = 32),
    CONSTRAINT on_lost_word CHECK (on_lost IN ('retry', 'hold')),
    CONSTRAINT state_word CHECK (state IN ('held', 'in_doubt', 'settled', 'free', 'expired')),
    CONSTRAINT doubt_word CHECK (doubt IN ('runner_died', 'outcome_unknown', 'response_not_stored')),
    CONSTRAINT doubt_is_of_in_doubt CHECK ((doubt IS NOT NULL) = (state = 'in_doubt')),
    CONSTRAINT lease_is_whole CHECK (
        num_nonnulls(epoch, lease_owner, lease_until) = CASE WHEN state IN ('held', 'in_doubt') THEN 3 ELSE 0 END
    ),
    CONSTRAINT outcome_is_of_settled CHECK (
        CASE WHEN state = 'settled'
            THEN response_status_code IS NOT NULL AND completed_at IS NOT NULL
            ELSE num_nonnulls(response_status_code, response_headers, response_body, completed_at) = 0
        END
    ),
    CONSTRAINT status_is_a_status CHECK (response_status_code BETWEEN 0 AND 65535)
) WITH (
    -- Room on the page for every row's next version, so that settling is a heap-only update and touches no index.
    -- A group settles all rows of a page at once: at 80 only 41 % were heap-only, at 50 all.
    fillfactor = 50,
    -- A busy table is vacuumed by the number of dead rows, not by its size.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

-- Bodies are compressed before they come here; large ones live apart, and settling does not copy them.
ALTER TABLE idempotency_keys
    ALTER COLUMN request_body SET STORAGE EXTERNAL,
    ALTER COLUMN response_body SET STORAGE EXTERNAL;

-- State, version and lease are never indexed: they change with every write.
CREATE INDEX idx_idempotency_expires ON idempotency_keys (expires_at) WHERE purge_at IS NULL;
CREATE INDEX idx_idempotency_purge ON idempotency_keys (purge_at) WHERE purge_at IS NOT NULL;
-- Every row fulfils this one's condition. Lookups by id do not name it, so they cannot take this index by mistake.
CREATE INDEX idx_idempotency_tenant_created ON idempotency_keys (tenant_id, created_at, id)
    WHERE created_at > '-infinity';

ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;

-- After a transaction with a local setting the setting is '', not NULL; both mean "no tenant, no rows".
CREATE POLICY idempotency_keys_tenant_isolation ON idempotency_keys
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);

-- The sweeper serves every tenant, and can leave behind nothing but an empty row.
CREATE POLICY idempotency_keys_sweep ON idempotency_keys
    FOR ALL TO hapax_janitor
    USING (true)
    WITH CHECK (
        state IN ('expired', 'free')
        AND purge_at IS NOT NULL
        AND num_nonnulls(request_body, request_headers, response_body, response_headers) = 0
    );

REVOKE ALL ON idempotency_keys FROM PUBLIC;
-- The app never deletes: a key given back keeps its version, or an old lease could settle a new claim.
GRANT SELECT, INSERT, UPDATE ON idempotency_keys TO hapax_app;
GRANT SELECT (tenant_id, id, state, version, on_lost, created_at, expires_at, completed_at, lease_until, purge_at)
    ON idempotency_keys TO hapax_janitor;
GRANT UPDATE (
    state, version, purge_at, completed_at, epoch, lease_owner, lease_until, doubt,
    content_hash, request_method, request_path, request_content_type, request_body, request_headers,
    response_status_code, response_headers, response_body
) ON idempotency_keys TO hapax_janitor;
GRANT DELETE ON idempotency_keys TO hapax_janitor;

-- The schema may be another one than public, which everybody may use.
DO $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO hapax_app, hapax_janitor', current_schema());
END
$$;
