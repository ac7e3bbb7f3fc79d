-- The ledger: one row per key, large bodies beside it, and the count of outcomes taken back.
-- Times are UTC milliseconds, UUIDs are 16 bytes, bodies are in the store's packed form.
-- Lists are spelled with OR: SQLite builds a temporary table for every longer IN list of a CHECK, per write.

CREATE TABLE idempotency_keys (
    id                    BLOB    NOT NULL CHECK (length(id) = 16),
    tenant_id             BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    idempotency_key       TEXT    NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    route_pattern         TEXT    NOT NULL CHECK (length(route_pattern) BETWEEN 1 AND 200),
    content_hash          TEXT    NOT NULL,
    request_method        TEXT    NOT NULL,
    request_path          TEXT    NOT NULL,
    request_content_type  TEXT    NOT NULL,
    request_body          BLOB,
    request_body_apart    INTEGER NOT NULL DEFAULT 0 CHECK (request_body_apart IN (0, 1)),
    -- Always NULL for now: headers carry credentials, and those are not stored.
    request_headers       TEXT    CHECK (request_headers IS NULL),
    response_status_code  INTEGER CHECK (response_status_code BETWEEN 0 AND 65535),
    -- NULL in a settled row without response_body_apart: the body was too large to keep.
    response_body         BLOB,
    response_body_apart   INTEGER NOT NULL DEFAULT 0 CHECK (response_body_apart IN (0, 1)),
    response_headers      TEXT,
    created_at            INTEGER NOT NULL,
    expires_at            INTEGER NOT NULL,
    completed_at          INTEGER,
    version               INTEGER NOT NULL CHECK (version > 0),
    state                 TEXT    NOT NULL CHECK (
        state = 'held' OR state = 'settled' OR state = 'in_doubt' OR state = 'free' OR state = 'expired'
    ),
    fingerprint           BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    principal             BLOB    CHECK (length(principal) = 32),
    on_lost               TEXT    NOT NULL CHECK (on_lost IN ('retry', 'hold')),
    lease_ms              INTEGER NOT NULL CHECK (lease_ms >= 0),
    epoch                 INTEGER CHECK (epoch <= version),
    lease_owner           BLOB    CHECK (length(lease_owner) = 16),
    lease_until           INTEGER,
    doubt                 TEXT    CHECK (
        doubt = 'runner_died' OR doubt = 'outcome_unknown' OR doubt = 'response_not_stored'
    ),
    -- NULL until the row is swept, then when it is forgotten.
    purge_at              INTEGER,

    PRIMARY KEY (tenant_id, id),

    -- A lease is whole and belongs to held and in_doubt only.
    CHECK ((state IN ('held', 'in_doubt')) = (epoch IS NOT NULL)),
    CHECK ((epoch IS NULL) = (lease_owner IS NULL) AND (epoch IS NULL) = (lease_until IS NULL)),
    CHECK ((state = 'in_doubt') = (doubt IS NOT NULL)),
    -- An outcome is there if and only if the row is settled.
    CHECK ((state = 'settled') = (completed_at IS NOT NULL)),
    CHECK ((state = 'settled') = (response_status_code IS NOT NULL)),
    CHECK (state = 'settled' OR (response_body IS NULL AND response_headers IS NULL AND response_body_apart = 0)),
    -- A body is in the row or apart, not both.
    CHECK (request_body IS NULL OR request_body_apart = 0),
    CHECK (response_body IS NULL OR response_body_apart = 0),
    -- A swept row has no content.
    CHECK (purge_at IS NULL OR (state IN ('free', 'expired') AND request_body IS NULL AND request_body_apart = 0))
) STRICT;

CREATE INDEX idx_idempotency_expires ON idempotency_keys (expires_at) WHERE purge_at IS NULL;
CREATE INDEX idx_idempotency_purge ON idempotency_keys (purge_at) WHERE purge_at IS NOT NULL;
CREATE INDEX idx_idempotency_created ON idempotency_keys (tenant_id, created_at, id);

-- Bodies over 4096 packed bytes, so that renewing and settling do not rewrite them.
CREATE TABLE idempotency_body (
    tenant_id  BLOB NOT NULL,
    id         BLOB NOT NULL,
    part       TEXT NOT NULL CHECK (part IN ('request', 'response')),
    body       BLOB NOT NULL,

    PRIMARY KEY (tenant_id, id, part),
    FOREIGN KEY (tenant_id, id) REFERENCES idempotency_keys (tenant_id, id) ON DELETE CASCADE
) STRICT;

-- How often a settled outcome was taken back: one row, raised in the transaction that takes it back.
CREATE TABLE idempotency_purge (
    one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    count  INTEGER NOT NULL CHECK (count >= 0)
) STRICT;

INSERT INTO idempotency_purge (one, count) VALUES (1, 0);
