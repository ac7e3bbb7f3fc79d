-- The audit trail, and what erasing needs: a state for erased rows, and whom a row is about.

CREATE TABLE audit_log (
    id             INTEGER NOT NULL PRIMARY KEY,
    tenant_id      BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    at             INTEGER NOT NULL,
    action         TEXT    NOT NULL CHECK (length(action) BETWEEN 1 AND 64),
    actor          TEXT    CHECK (length(actor) <= 1024),
    key_id         BLOB    CHECK (length(key_id) = 16),
    route_pattern  TEXT,
    details        TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(details))
) STRICT;

CREATE INDEX idx_audit_tenant ON audit_log (tenant_id, at, id);
CREATE INDEX idx_audit_at ON audit_log (at);
CREATE INDEX idx_audit_key ON audit_log (tenant_id, key_id, at, id) WHERE key_id IS NOT NULL;

CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE ON audit_log
BEGIN
    SELECT raise(ABORT, 'a note is never changed');
END;

-- A CHECK cannot be changed in place: the rows move to a table that knows the new state and column. Both tables
-- are renamed first, so that nothing is deleted through the reference between them.
ALTER TABLE idempotency_body RENAME TO idempotency_body_before;
ALTER TABLE idempotency_keys RENAME TO idempotency_keys_before;

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
        OR state = 'erased'
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
    -- Whom the request is about, hashed, so that it can be erased.
    subject               BLOB    CHECK (length(subject) = 32),

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
    -- A swept row has no content, and neither has an erased one.
    CHECK (purge_at IS NULL OR (state IN ('free', 'expired') AND request_body IS NULL AND request_body_apart = 0)),
    CHECK (state <> 'erased' OR (
        request_body IS NULL AND request_body_apart = 0 AND principal IS NULL AND subject IS NULL
    ))
) STRICT;

INSERT INTO idempotency_keys (
    id, tenant_id, idempotency_key, route_pattern, content_hash, request_method, request_path, request_content_type,
    request_body, request_body_apart, request_headers, response_status_code, response_body, response_body_apart,
    response_headers, created_at, expires_at, completed_at, version, state, fingerprint, principal, on_lost, lease_ms,
    epoch, lease_owner, lease_until, doubt, purge_at
)
SELECT id, tenant_id, idempotency_key, route_pattern, content_hash, request_method, request_path, request_content_type,
       request_body, request_body_apart, request_headers, response_status_code, response_body, response_body_apart,
       response_headers, created_at, expires_at, completed_at, version, state, fingerprint, principal, on_lost, lease_ms,
       epoch, lease_owner, lease_until, doubt, purge_at
  FROM idempotency_keys_before;

-- Bodies over 4096 packed bytes, so that renewing and settling do not rewrite them.
CREATE TABLE idempotency_body (
    tenant_id  BLOB NOT NULL,
    id         BLOB NOT NULL,
    part       TEXT NOT NULL CHECK (part IN ('request', 'response')),
    body       BLOB NOT NULL,

    PRIMARY KEY (tenant_id, id, part),
    FOREIGN KEY (tenant_id, id) REFERENCES idempotency_keys (tenant_id, id) ON DELETE CASCADE
) STRICT;

INSERT INTO idempotency_body (tenant_id, id, part, body)
SELECT tenant_id, id, part, body FROM idempotency_body_before;

DROP TABLE idempotency_body_before;
DROP TABLE idempotency_keys_before;

CREATE INDEX idx_idempotency_expires ON idempotency_keys (expires_at) WHERE purge_at IS NULL;
CREATE INDEX idx_idempotency_purge ON idempotency_keys (purge_at) WHERE purge_at IS NOT NULL;
CREATE INDEX idx_idempotency_created ON idempotency_keys (tenant_id, created_at, id);
CREATE INDEX idx_idempotency_subject ON idempotency_keys (tenant_id, subject, created_at, id) WHERE subject IS NOT NULL;
