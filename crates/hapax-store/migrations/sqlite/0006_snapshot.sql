-- Snapshots: one row for each payload, a history for each entity, and who saw what when. Times are UTC milliseconds.

CREATE TABLE snapshot (
    seq           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id     BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    collection    TEXT    NOT NULL CHECK (length(collection) BETWEEN 1 AND 255),
    id            BLOB    NOT NULL CHECK (length(id) = 16),
    entity_id     TEXT    NOT NULL,
    label         TEXT,
    payload_hash  BLOB    CHECK (length(payload_hash) = 32),
    -- A row from before hashes misses its own until it is filled in, unless its payload is kept under another id
    -- already or cannot be hashed.
    hash_state    TEXT    NOT NULL DEFAULT 'missing' CHECK (hash_state IN ('there', 'missing', 'duplicate', 'unreadable')),
    created_at    INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL,
    seen          INTEGER NOT NULL CHECK (seen > 0),

    UNIQUE (tenant_id, id),
    CHECK ((payload_hash IS NOT NULL) = (hash_state = 'there'))
) STRICT;

CREATE UNIQUE INDEX idx_snapshot_hash ON snapshot (tenant_id, collection, payload_hash) WHERE payload_hash IS NOT NULL;
CREATE INDEX idx_snapshot_entity ON snapshot (tenant_id, collection, entity_id, seq);
CREATE INDEX idx_snapshot_unhashed ON snapshot (seq) WHERE hash_state = 'missing';

-- The payload, apart, so that seeing it again does not rewrite it.
CREATE TABLE snapshot_payload (
    snapshot_seq  INTEGER NOT NULL PRIMARY KEY REFERENCES snapshot (seq) ON DELETE CASCADE,
    payload       TEXT    NOT NULL
) STRICT;

-- What older programs call the same text. Not unique: two payloads may look alike to them.
CREATE TABLE snapshot_alias (
    snapshot_seq  INTEGER NOT NULL REFERENCES snapshot (seq) ON DELETE CASCADE,
    nth           INTEGER NOT NULL,
    tenant_id     BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    collection    TEXT    NOT NULL,
    profile       TEXT    NOT NULL,
    hash          TEXT    NOT NULL,

    PRIMARY KEY (snapshot_seq, nth)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_snapshot_alias_hash ON snapshot_alias (tenant_id, collection, hash, profile);

-- What is listed: each entity with the snapshot that was new last.
CREATE TABLE entity (
    tenant_id    BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    collection   TEXT    NOT NULL,
    entity_id    TEXT    NOT NULL,
    label        TEXT,
    current_seq  INTEGER NOT NULL,
    current_id   BLOB    NOT NULL CHECK (length(current_id) = 16),
    snapshots    INTEGER NOT NULL CHECK (snapshots > 0),
    created_at   INTEGER NOT NULL,

    PRIMARY KEY (tenant_id, collection, entity_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_entity_changed ON entity (tenant_id, collection, current_seq);

-- Who saw a snapshot when. The newest take the places of the oldest, so each snapshot keeps a bounded number.
CREATE TABLE observation (
    snapshot_seq  INTEGER NOT NULL REFERENCES snapshot (seq) ON DELETE CASCADE,
    place         INTEGER NOT NULL,
    tenant_id     BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    nth           INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    seen_by       TEXT,
    key_match     TEXT,

    PRIMARY KEY (snapshot_seq, place)
) STRICT, WITHOUT ROWID;

-- The snapshots of courses under the name that older tools know. A table of that name is somebody else's and stays.
CREATE VIEW IF NOT EXISTS course_snapshots AS
SELECT lower(
           substr(hex(snapshot.id), 1, 8) || '-' || substr(hex(snapshot.id), 9, 4) || '-' || substr(hex(snapshot.id), 13, 4)
           || '-' || substr(hex(snapshot.id), 17, 4) || '-' || substr(hex(snapshot.id), 21, 12)
       ) AS id,
       snapshot.entity_id AS course_id,
       snapshot_payload.payload AS payload,
       CASE WHEN snapshot.payload_hash IS NOT NULL THEN lower(hex(snapshot.payload_hash)) END AS payload_hash,
       strftime('%Y-%m-%dT%H:%M:%fZ', snapshot.created_at / 1000.0, 'unixepoch') AS created_at,
       snapshot.tenant_id AS tenant_id
  FROM snapshot JOIN snapshot_payload ON snapshot_payload.snapshot_seq = snapshot.seq
 WHERE snapshot.collection = 'courses';
