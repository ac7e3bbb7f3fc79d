-- Jobs and their operations. Times are UTC milliseconds. What an older program kept under the names of the two
-- views was moved aside before this runs, and is copied here after it.

CREATE TABLE job (
    seq            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id      BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    job_id         TEXT    NOT NULL CHECK (length(job_id) BETWEEN 1 AND 128),
    job_key        TEXT    NOT NULL CHECK (length(job_key) BETWEEN 1 AND 128),
    kind           TEXT    NOT NULL CHECK (length(kind) BETWEEN 1 AND 64),
    place          TEXT    NOT NULL CHECK (length(place) <= 1024),
    state          TEXT    NOT NULL CHECK (state IN (
        'PLANNED', 'LEASED', 'HEAD_DONE', 'RESUME_OK', 'STREAMING', 'FINALIZED', 'INDEXED', 'DEDUPED', 'FAILED',
        'SKIPPED_DUPLICATE', 'DEAD'
    )),
    -- Where it stands in the queue, as of its last write: ready to be leased, resting until available_at, or off it.
    -- Whoever leases marks those ready whose rest is over, so that nobody walks past jobs that rest.
    standing       TEXT    NOT NULL CHECK (standing IN ('ready', 'resting', 'off')),
    lease_owner    TEXT,
    lease_until    INTEGER,
    epoch          INTEGER NOT NULL CHECK (epoch >= 0),
    attempts       INTEGER NOT NULL CHECK (attempts >= 0),
    failures       INTEGER NOT NULL CHECK (failures >= 0),
    max_attempts   INTEGER NOT NULL CHECK (max_attempts > 0),
    available_at   INTEGER NOT NULL,
    redone         INTEGER NOT NULL,
    retried        INTEGER NOT NULL,
    work_id        TEXT    NOT NULL,
    artifact_id    TEXT    NOT NULL,
    canonical_url  TEXT    NOT NULL,
    result         TEXT,
    error          TEXT,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,

    UNIQUE (tenant_id, job_id),
    UNIQUE (tenant_id, job_key),

    -- A lease is whole, and a job at its end has none.
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CHECK ((state IN ('INDEXED', 'DEDUPED', 'SKIPPED_DUPLICATE', 'DEAD')) = (standing = 'off')),
    CHECK (standing <> 'off' OR lease_until IS NULL)
) STRICT;

-- What is to be leased, in its order; what rests, by when it is over; what somebody holds. Finished jobs are in none.
CREATE INDEX idx_job_ready ON job (tenant_id, place, kind, attempts, seq) WHERE standing = 'ready';
CREATE INDEX idx_job_resting ON job (tenant_id, place, kind, available_at) WHERE standing = 'resting';
CREATE INDEX idx_job_held ON job (tenant_id, seq) WHERE lease_until IS NOT NULL;
-- Lists and counts. A list of all kinds or states is put together from the lists of each.
CREATE INDEX idx_job_state ON job (tenant_id, kind, state, seq);
CREATE INDEX idx_job_work ON job (tenant_id, work_id, seq);

-- What the planner added, apart, so that a change of state does not rewrite it.
CREATE TABLE job_payload (
    job_seq  INTEGER NOT NULL PRIMARY KEY REFERENCES job (seq) ON DELETE CASCADE,
    payload  TEXT    NOT NULL
) STRICT;

CREATE TABLE op (
    tenant_id    BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    op_key       TEXT    NOT NULL CHECK (length(op_key) BETWEEN 1 AND 255),
    job_seq      INTEGER NOT NULL REFERENCES job (seq) ON DELETE CASCADE,
    kind         TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('running', 'done', 'retryable', 'failed', 'in_doubt', 'waiting')),
    class        TEXT    NOT NULL CHECK (class IN ('tx', 'keyed', 'probe', 'replayable', 'at_most_once')),
    epoch        INTEGER NOT NULL CHECK (epoch >= 0),
    token        TEXT    NOT NULL CHECK (length(token) <= 128),
    tries        INTEGER NOT NULL CHECK (tries > 0),
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER,
    result       TEXT,
    error        TEXT,

    PRIMARY KEY (tenant_id, op_key),

    -- What is done has its result, and what failed has its reason.
    CHECK (state <> 'done' OR (result IS NOT NULL AND finished_at IS NOT NULL)),
    CHECK (state <> 'failed' OR (error IS NOT NULL AND finished_at IS NOT NULL))
) STRICT;

CREATE INDEX idx_op_job ON op (tenant_id, job_seq, started_at);
CREATE INDEX idx_op_running ON op (tenant_id, started_at) WHERE state = 'running';

-- What older tools look at first.
CREATE TABLE IF NOT EXISTS _meta (
    key    TEXT PRIMARY KEY,
    value  TEXT NOT NULL
);

INSERT INTO _meta (key, value) VALUES ('schema_version', '3') ON CONFLICT (key) DO NOTHING;

-- The tables as older tools know them: times are seconds since 1970.
CREATE VIEW artifact_jobs AS
SELECT job_id, work_id, artifact_id, canonical_url, state, lease_owner,
       lease_until / 1000.0 AS lease_until,
       created_at / 1000.0 AS created_at,
       updated_at / 1000.0 AS updated_at,
       job_key AS idempotency_key, kind, epoch, attempts, tenant_id
  FROM job;

CREATE VIEW artifact_ops AS
SELECT op.op_key, job.job_id, op.kind AS op_type,
       op.started_at / 1000.0 AS started_at,
       op.finished_at / 1000.0 AS finished_at,
       CASE op.state
           WHEN 'done' THEN 'OK' WHEN 'failed' THEN 'ERROR' WHEN 'retryable' THEN 'ERROR' WHEN 'in_doubt' THEN 'ABANDONED'
       END AS result_code,
       CASE op.state WHEN 'done' THEN op.result END AS result_json, op.tenant_id
  FROM op JOIN job ON job.seq = op.job_seq;
