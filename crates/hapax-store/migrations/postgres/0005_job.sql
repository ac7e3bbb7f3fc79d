-- Jobs and their operations. Times are UTC milliseconds, which the rule compares to the last digit.
CREATE TABLE job (
    tenant_id uuid NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    job_key text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL DEFAULT '',
    state text COLLATE "C" NOT NULL,
    -- Where it stands in the queue, as of its last write: ready to be leased, resting until available_at, or off it.
    -- Whoever leases marks those ready whose rest is over, so that nobody walks past jobs that rest.
    standing text COLLATE "C" NOT NULL,
    lease_owner text,
    lease_until bigint,
    epoch bigint NOT NULL,
    attempts bigint NOT NULL,
    failures bigint NOT NULL,
    max_attempts bigint NOT NULL,
    available_at bigint NOT NULL,
    redone bigint NOT NULL,
    retried bigint NOT NULL,
    work_id text COLLATE "C" NOT NULL,
    artifact_id text NOT NULL,
    canonical_url text NOT NULL,
    payload text,
    result text,
    error text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,

    -- With the tenant in each, and after the id: see idempotency_keys.
    CONSTRAINT job_pkey PRIMARY KEY (job_id, tenant_id),
    CONSTRAINT job_key_is_unique UNIQUE (job_key, tenant_id),
    CONSTRAINT job_id_length CHECK (octet_length(job_id) BETWEEN 1 AND 128),
    CONSTRAINT job_key_length CHECK (octet_length(job_key) BETWEEN 1 AND 128),
    CONSTRAINT job_kind_length CHECK (octet_length(kind) BETWEEN 1 AND 64),
    CONSTRAINT job_place_length CHECK (octet_length(place) <= 1024),
    CONSTRAINT job_state_word CHECK (state IN (
        'PLANNED', 'LEASED', 'HEAD_DONE', 'RESUME_OK', 'STREAMING', 'FINALIZED', 'INDEXED', 'DEDUPED', 'FAILED',
        'SKIPPED_DUPLICATE', 'DEAD'
    )),
    CONSTRAINT job_standing_word CHECK (standing IN ('ready', 'resting', 'off')),
    CONSTRAINT job_lease_is_whole CHECK (num_nonnulls(lease_owner, lease_until) <> 1),
    CONSTRAINT job_end_has_no_lease CHECK (
        state NOT IN ('INDEXED', 'DEDUPED', 'SKIPPED_DUPLICATE', 'DEAD') OR (lease_until IS NULL AND standing = 'off')
    ),
    CONSTRAINT job_counts_are_counts CHECK (epoch >= 0 AND attempts >= 0 AND failures >= 0 AND max_attempts > 0)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

-- What is to be leased, in its order; what rests, by when it is over; what somebody holds. Finished jobs are in none.
CREATE INDEX idx_job_ready ON job (tenant_id, place, kind, attempts, seq) WHERE standing = 'ready';
CREATE INDEX idx_job_resting ON job (tenant_id, place, kind, available_at) WHERE standing = 'resting';
CREATE INDEX idx_job_held ON job (tenant_id, lease_until) WHERE lease_until IS NOT NULL;
-- Every row fulfils the condition of these. Lookups by id do not name it, so they cannot take them by mistake.
CREATE INDEX idx_job_listed ON job (tenant_id, seq) WHERE seq > 0;
CREATE INDEX idx_job_state ON job (tenant_id, state, seq) WHERE seq > 0;
CREATE INDEX idx_job_work ON job (tenant_id, work_id, seq) WHERE seq > 0;

CREATE TABLE op (
    tenant_id uuid NOT NULL,
    op_key text COLLATE "C" NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    job_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    state text COLLATE "C" NOT NULL,
    class text NOT NULL,
    epoch bigint NOT NULL,
    token text NOT NULL,
    tries bigint NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint,
    result text,
    error text,

    CONSTRAINT op_pkey PRIMARY KEY (op_key, tenant_id),
    CONSTRAINT op_is_of_a_job FOREIGN KEY (job_id, tenant_id) REFERENCES job (job_id, tenant_id),
    CONSTRAINT op_key_length CHECK (octet_length(op_key) BETWEEN 1 AND 255),
    CONSTRAINT op_kind_length CHECK (octet_length(kind) BETWEEN 1 AND 64),
    CONSTRAINT op_state_word CHECK (state IN ('running', 'done', 'retryable', 'failed', 'in_doubt', 'waiting')),
    CONSTRAINT op_class_word CHECK (class IN ('tx', 'keyed', 'probe', 'replayable', 'at_most_once')),
    CONSTRAINT op_done_has_a_result CHECK (state <> 'done' OR (result IS NOT NULL AND finished_at IS NOT NULL)),
    CONSTRAINT op_tries_is_positive CHECK (tries > 0)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

CREATE INDEX idx_op_job ON op (job_id, tenant_id, seq);
CREATE INDEX idx_op_running ON op (tenant_id, started_at) WHERE state = 'running';

-- What older tools look at first.
CREATE TABLE _meta (
    key text NOT NULL,
    value text NOT NULL,

    CONSTRAINT _meta_pkey PRIMARY KEY (key)
);
INSERT INTO _meta (key, value) VALUES ('schema_version', '3');

ALTER TABLE job ENABLE ROW LEVEL SECURITY;
ALTER TABLE job FORCE ROW LEVEL SECURITY;
ALTER TABLE op ENABLE ROW LEVEL SECURITY;
ALTER TABLE op FORCE ROW LEVEL SECURITY;

CREATE POLICY job_tenant_isolation ON job
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
CREATE POLICY op_tenant_isolation ON op
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);

-- Who looks for work and for leftovers serves every tenant, changes nothing, and sees no content.
CREATE POLICY job_overview ON job FOR SELECT TO hapax_janitor USING (true);
CREATE POLICY op_overview ON op FOR SELECT TO hapax_janitor USING (true);

-- The tables as older tools know them: times are seconds since 1970. They show what the one who asks may see.
CREATE VIEW artifact_jobs WITH (security_invoker = true) AS
SELECT job_id, work_id, artifact_id, canonical_url, state, lease_owner,
       lease_until / 1000.0::double precision AS lease_until,
       created_at / 1000.0::double precision AS created_at,
       updated_at / 1000.0::double precision AS updated_at,
       job_key AS idempotency_key, kind, epoch, attempts, tenant_id
  FROM job;
CREATE VIEW artifact_ops WITH (security_invoker = true) AS
SELECT op_key, job_id, kind AS op_type,
       started_at / 1000.0::double precision AS started_at,
       finished_at / 1000.0::double precision AS finished_at,
       CASE state
           WHEN 'done' THEN 'OK' WHEN 'failed' THEN 'ERROR' WHEN 'retryable' THEN 'ERROR' WHEN 'in_doubt' THEN 'ABANDONED'
       END AS result_code,
       CASE state WHEN 'done' THEN result END AS result_json, tenant_id
  FROM op;

REVOKE ALL ON job, op, _meta, artifact_jobs, artifact_ops FROM PUBLIC;
-- Nobody of ours deletes: a job that is gone could be planned and run again.
GRANT SELECT, INSERT, UPDATE ON job, op TO hapax_app;
GRANT SELECT ON _meta, artifact_jobs, artifact_ops TO hapax_app;
GRANT SELECT (tenant_id, job_id, kind, place, state, standing, epoch, available_at, lease_until) ON job TO hapax_janitor;
GRANT SELECT (tenant_id, op_key, job_id, state, epoch, started_at) ON op TO hapax_janitor;
