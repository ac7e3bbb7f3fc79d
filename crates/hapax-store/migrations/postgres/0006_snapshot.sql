-- Snapshots: one row for each payload, a history for each entity, and who saw what when. Times are UTC milliseconds.
CREATE TABLE snapshot (
    tenant_id uuid NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    id uuid NOT NULL,
    collection text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL,
    label text COLLATE "C",
    payload_hash bytea,
    -- A row from before hashes misses its own until it is filled in, unless its payload is kept under another id
    -- already or cannot be hashed.
    hash_state text COLLATE "C" NOT NULL DEFAULT 'missing',
    payload text NOT NULL,
    created_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    seen bigint NOT NULL,

    -- With the tenant in each, and after the id: see idempotency_keys.
    CONSTRAINT snapshot_pkey PRIMARY KEY (seq, tenant_id),
    CONSTRAINT snapshot_id_is_unique UNIQUE (id, tenant_id),
    CONSTRAINT snapshot_collection_length CHECK (octet_length(collection) BETWEEN 1 AND 255),
    CONSTRAINT snapshot_entity_length CHECK (octet_length(entity_id) <= 2048),
    CONSTRAINT snapshot_hash_is_a_sha256 CHECK (octet_length(payload_hash) = 32),
    CONSTRAINT snapshot_hash_state_word CHECK (hash_state IN ('there', 'missing', 'duplicate', 'unreadable')),
    CONSTRAINT snapshot_hash_is_there CHECK ((payload_hash IS NOT NULL) = (hash_state = 'there')),
    CONSTRAINT snapshot_was_seen CHECK (seen > 0)
) WITH (
    -- Seeing a snapshot again touches no index, and a large payload lives apart and is not copied.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

CREATE UNIQUE INDEX snapshot_hash_is_unique ON snapshot (payload_hash, collection, tenant_id)
    WHERE payload_hash IS NOT NULL;
-- Every row fulfils the condition. Lookups by id do not name it, so they cannot take this index by mistake.
CREATE INDEX idx_snapshot_entity ON snapshot (tenant_id, collection, entity_id, seq) WHERE seq > 0;
CREATE INDEX idx_snapshot_unhashed ON snapshot (tenant_id, seq) WHERE hash_state = 'missing';

-- What older programs call the same text. Not unique: two payloads may look alike to them.
CREATE TABLE snapshot_alias (
    tenant_id uuid NOT NULL,
    snapshot_seq bigint NOT NULL,
    nth bigint NOT NULL,
    collection text COLLATE "C" NOT NULL,
    profile text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,

    CONSTRAINT snapshot_alias_pkey PRIMARY KEY (snapshot_seq, tenant_id, nth),
    CONSTRAINT snapshot_alias_is_of_a_snapshot FOREIGN KEY (snapshot_seq, tenant_id) REFERENCES snapshot (seq, tenant_id)
);

CREATE INDEX idx_snapshot_alias_hash ON snapshot_alias (hash, profile, collection, tenant_id);

-- What is listed: each entity with the snapshot that was new last.
CREATE TABLE entity (
    tenant_id uuid NOT NULL,
    collection text COLLATE "C" NOT NULL,
    entity_id text COLLATE "C" NOT NULL,
    label text COLLATE "C",
    current_seq bigint NOT NULL,
    current_id uuid NOT NULL,
    snapshots bigint NOT NULL,
    created_at bigint NOT NULL,

    CONSTRAINT entity_pkey PRIMARY KEY (entity_id, collection, tenant_id),
    CONSTRAINT entity_has_a_snapshot CHECK (snapshots > 0)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

CREATE INDEX idx_entity_changed ON entity (tenant_id, collection, current_seq) WHERE current_seq > 0;

-- Who saw a snapshot when. The newest take the places of the oldest, so each snapshot keeps a bounded number.
CREATE TABLE observation (
    tenant_id uuid NOT NULL,
    snapshot_seq bigint NOT NULL,
    place bigint NOT NULL,
    nth bigint NOT NULL,
    at bigint NOT NULL,
    seen_by text,
    key_match text,

    CONSTRAINT observation_pkey PRIMARY KEY (snapshot_seq, tenant_id, place),
    CONSTRAINT observation_is_of_a_snapshot FOREIGN KEY (snapshot_seq, tenant_id) REFERENCES snapshot (seq, tenant_id)
);

ALTER TABLE snapshot ENABLE ROW LEVEL SECURITY;
ALTER TABLE snapshot FORCE ROW LEVEL SECURITY;
ALTER TABLE snapshot_alias ENABLE ROW LEVEL SECURITY;
ALTER TABLE snapshot_alias FORCE ROW LEVEL SECURITY;
ALTER TABLE entity ENABLE ROW LEVEL SECURITY;
ALTER TABLE entity FORCE ROW LEVEL SECURITY;
ALTER TABLE observation ENABLE ROW LEVEL SECURITY;
ALTER TABLE observation FORCE ROW LEVEL SECURITY;

CREATE POLICY snapshot_tenant_isolation ON snapshot
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
CREATE POLICY snapshot_alias_tenant_isolation ON snapshot_alias
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
CREATE POLICY entity_tenant_isolation ON entity
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
CREATE POLICY observation_tenant_isolation ON observation
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);

-- Who looks for missing hashes serves every tenant, changes nothing, and sees no content.
CREATE POLICY snapshot_overview ON snapshot FOR SELECT TO hapax_janitor USING (true);

REVOKE ALL ON snapshot, snapshot_alias, entity, observation FROM PUBLIC;
-- Nobody of ours deletes: history is kept.
GRANT SELECT, INSERT, UPDATE ON snapshot, entity, observation TO hapax_app;
GRANT SELECT, INSERT ON snapshot_alias TO hapax_app;
GRANT SELECT (tenant_id, seq, id, collection, hash_state) ON snapshot TO hapax_janitor;

-- The snapshots of courses under the name that older tools know. A table of that name is somebody else's and stays.
DO $$
BEGIN
    IF to_regclass('course_snapshots') IS NULL THEN
        CREATE VIEW course_snapshots WITH (security_invoker = true) AS
        SELECT id, entity_id AS course_id, payload, encode(payload_hash, 'hex') AS payload_hash,
               to_timestamp(created_at / 1000.0::double precision) AS created_at, tenant_id
          FROM snapshot
         WHERE collection = 'courses';
        REVOKE ALL ON course_snapshots FROM PUBLIC;
        GRANT SELECT ON course_snapshots TO hapax_app;
    END IF;
END
$$;
