-- Entries of a knowledge base in two homes with the same tables, pkm for real and pkm_test to try things on, and the
-- imports that bring backlogs in. People query the homes with SQL of their own, so their times are timestamps.

-- One ledger of a database has the two homes: their names are promised to people, so a second one cannot have others.
DO $$
DECLARE
    home text;
BEGIN
    FOREACH home IN ARRAY ARRAY['pkm', 'pkm_test'] LOOP
        IF to_regnamespace(home) IS NULL THEN
            EXECUTE format('CREATE SCHEMA %I', home);
        ELSIF to_regclass(home || '.entries') IS NOT NULL THEN
            RAISE EXCEPTION 'the schema % has a table entries already, of another program or of another ledger in this '
                'database; rename that schema, or give this ledger a database of its own', home;
        END IF;
    END LOOP;
END
$$;

-- Words of a text, for searching: letters and digits in lower case, and only spaces between them, so that "don't", "a-b"
-- and an address are the words they look like. What is a letter must not depend on the database's locale, so the first
-- collation is taken that knows more than ASCII.
DO $$
DECLARE
    known text;
BEGIN
    SELECT c.collname
      INTO known
      FROM pg_catalog.pg_collation AS c
     WHERE c.collnamespace = 'pg_catalog'::regnamespace AND c.collname IN ('pg_c_utf8', 'und-x-icu', 'C.utf8')
       AND c.collencoding IN (-1, (SELECT d.encoding FROM pg_catalog.pg_database AS d WHERE d.datname = current_database()))
     ORDER BY array_position(ARRAY['pg_c_utf8', 'und-x-icu', 'C.utf8'], c.collname::text)
     LIMIT 1;
    EXECUTE format(
        $f$
        CREATE FUNCTION pkm.searched(given text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
        RETURN lower(regexp_replace(given COLLATE %1$I, '[^[:alnum:]]+', ' ', 'g') COLLATE %1$I)
        $f$,
        coalesce(known, 'default')
    );
END
$$;

-- What changes while programs run. The test mode says which home is written to; a missing row is off.
CREATE TABLE pkm.runtime_config (
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    tenant_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',

    CONSTRAINT runtime_config_pkey PRIMARY KEY (key),
    -- One row cannot stand for two tenants: another tenant's key ends with its id.
    CONSTRAINT runtime_config_key_is_the_tenants CHECK (
        CASE WHEN tenant_id = '00000000-0000-0000-0000-000000000000' THEN key NOT LIKE 'is\_test\_mode/%'
             ELSE right(key, 37) = '/' || tenant_id::text END
    ),
    CONSTRAINT runtime_config_mode_is_a_boolean CHECK (
        key NOT LIKE 'is\_test\_mode%'
        OR regexp_replace(value, '^"(.*)"$', '\1') ~* '^(true|false|t|f|on|off|yes|no|1|0)$'
    )
);
INSERT INTO pkm.runtime_config (key, value) VALUES ('is_test_mode', 'false');

-- Backlogs that are read in, and how far each is. Times are UTC milliseconds, as beside the homes they always are.
CREATE TABLE imports (
    tenant_id uuid NOT NULL,
    import_seq bigint GENERATED ALWAYS AS IDENTITY,
    import_id uuid NOT NULL,
    schema text COLLATE "C" NOT NULL,
    path text NOT NULL,
    -- A path may be longer than an index takes.
    path_hash bytea NOT NULL,
    batch_size bigint NOT NULL,
    insert_chunk_size bigint NOT NULL,
    completion_window text NOT NULL,
    thread_policy text,
    bytes bigint,
    status text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    cursor_index bigint NOT NULL,
    cursor_offset bigint NOT NULL,
    cursor_mark text,
    total_messages bigint NOT NULL,
    normalized_ok bigint NOT NULL,
    normalize_errors bigint NOT NULL,
    inserted bigint NOT NULL,
    updated bigint NOT NULL,
    skipped bigint NOT NULL,
    insert_errors bigint NOT NULL,
    tier1_candidates bigint NOT NULL,
    tier1_enqueued_items bigint NOT NULL,
    errors jsonb NOT NULL,
    error text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,

    -- With the tenant in each, and after the id: see idempotency_keys.
    CONSTRAINT imports_pkey PRIMARY KEY (import_id, tenant_id),
    CONSTRAINT imports_schema_word CHECK (schema IN ('pkm', 'pkm_test')),
    CONSTRAINT imports_status_word CHECK (status IN ('running', 'completed', 'failed')),
    CONSTRAINT imports_step_word CHECK (step IN ('reading', 'queueing')),
    CONSTRAINT imports_path_hash_is_a_sha256 CHECK (octet_length(path_hash) = 32),
    CONSTRAINT imports_sizes CHECK (batch_size > 0 AND insert_chunk_size > 0),
    CONSTRAINT imports_errors_is_a_list CHECK (jsonb_typeof(errors) = 'array')
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX imports_path_runs_once ON imports (path_hash, tenant_id) WHERE status = 'running';
-- Every row fulfils the condition. Lookups by id do not name it, so they cannot take this index by mistake.
CREATE INDEX idx_imports_newest ON imports (tenant_id, import_seq) WHERE import_seq > 0;

ALTER TABLE pkm.runtime_config ENABLE ROW LEVEL SECURITY;
ALTER TABLE pkm.runtime_config FORCE ROW LEVEL SECURITY;
ALTER TABLE imports ENABLE ROW LEVEL SECURITY;
ALTER TABLE imports FORCE ROW LEVEL SECURITY;
CREATE POLICY runtime_config_tenant_isolation ON pkm.runtime_config
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
CREATE POLICY imports_tenant_isolation ON imports
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
REVOKE ALL ON pkm.runtime_config, imports FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON pkm.runtime_config, imports TO hapax_app;
GRANT USAGE ON SCHEMA pkm, pkm_test TO hapax_app, hapax_janitor;

-- The tables of a home, twice the same.
DO $homes$
DECLARE
    home text;
    part text;
BEGIN
    FOREACH home IN ARRAY ARRAY['pkm', 'pkm_test'] LOOP
        EXECUTE replace($home$
CREATE SEQUENCE {home}.entries_entry_id_seq AS bigint;

CREATE TABLE {home}.entries (
    tenant_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    entry_id bigint NOT NULL DEFAULT nextval('{home}.entries_entry_id_seq'),
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    revision bigint NOT NULL DEFAULT 1,
    source text NOT NULL,
    intent text,
    content_type text,
    title text,
    author text,
    capture_text text,
    extracted_text text,
    clean_text text,
    url text,
    url_canonical text,
    retrieval_excerpt text,
    retrieval_version text,
    clean_word_count bigint,
    clean_char_count bigint,
    extracted_char_count bigint,
    link_count bigint,
    link_ratio double precision,
    boilerplate_heavy boolean,
    low_signal boolean,
    quality_score double precision,
    topic_primary text,
    topic_primary_confidence double precision,
    topic_secondary text,
    topic_secondary_confidence double precision,
    keywords jsonb,
    gist text,
    flags jsonb,
    enrichment_status text,
    enrichment_model text,
    prompt_version text,
    enriched_hash text,
    metadata jsonb,
    idempotency_policy_key text COLLATE "C",
    idempotency_key_primary text COLLATE "C",
    idempotency_key_secondary text COLLATE "C",
    -- The hash of what enrichment reads, written with every write.
    text_hash bytea,
    -- The words that it is found by, and whose it is: what others have does not make a search slower. Bounded, because
    -- such a value has at most a mebibyte.
    found_by tsvector GENERATED ALWAYS AS (to_tsvector('simple', pkm.searched(
        left(coalesce(title, ''), 10000) || ' ' || left(coalesce(author, ''), 10000) || ' '
        || left(coalesce(clean_text, ''), 100000) || ' of' || replace(tenant_id::text, '-', '')
    ))) STORED,

    -- With the tenant in each, and after the id: see idempotency_keys.
    CONSTRAINT entries_pkey PRIMARY KEY (entry_id, tenant_id),
    CONSTRAINT entries_id_is_unique UNIQUE (id, tenant_id),
    CONSTRAINT entries_keys_length CHECK (
        octet_length(idempotency_policy_key) BETWEEN 1 AND 1024
        AND octet_length(idempotency_key_primary) BETWEEN 1 AND 1024
        AND octet_length(idempotency_key_secondary) BETWEEN 1 AND 1024
    ),
    CONSTRAINT entries_counts CHECK (
        clean_word_count >= 0 AND clean_char_count >= 0 AND extracted_char_count >= 0 AND link_count >= 0
    ),
    CONSTRAINT entries_revision_counts CHECK (revision > 0),
    CONSTRAINT entries_keywords_is_a_list CHECK (jsonb_typeof(keywords) = 'array'),
    CONSTRAINT entries_flags_is_an_object CHECK (jsonb_typeof(flags) = 'object'),
    CONSTRAINT entries_metadata_is_an_object CHECK (jsonb_typeof(metadata) = 'object'),
    CONSTRAINT entries_text_hash_is_a_sha256 CHECK (octet_length(text_hash) = 32)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);
ALTER SEQUENCE {home}.entries_entry_id_seq OWNED BY {home}.entries.entry_id;

-- One row for each policy and key.
CREATE UNIQUE INDEX entries_primary_is_unique
    ON {home}.entries (idempotency_key_primary, idempotency_policy_key, tenant_id)
    WHERE idempotency_key_primary IS NOT NULL;
CREATE UNIQUE INDEX entries_secondary_is_unique
    ON {home}.entries (idempotency_key_secondary, idempotency_policy_key, tenant_id)
    WHERE idempotency_key_secondary IS NOT NULL;
-- Every row fulfils the condition, as in imports.
CREATE INDEX idx_entries_newest ON {home}.entries (tenant_id, created_at, entry_id) WHERE entry_id > 0;
CREATE INDEX idx_entries_found_by ON {home}.entries USING gin (found_by) WITH (fastupdate = off);

-- Every state of an entry that was replaced, whole.
CREATE TABLE {home}.entry_revisions (
    tenant_id uuid NOT NULL,
    entry_id bigint NOT NULL,
    revision bigint NOT NULL,
    "row" jsonb NOT NULL,
    replaced_at timestamptz NOT NULL,

    CONSTRAINT entry_revisions_pkey PRIMARY KEY (entry_id, revision, tenant_id),
    CONSTRAINT entry_revisions_revision_counts CHECK (revision > 0),
    CONSTRAINT entry_revisions_row_is_an_object CHECK (jsonb_typeof("row") = 'object')
);

-- What a second entry of the same key does. A row that somebody adds by hand is the default tenant's.
CREATE TABLE {home}.idempotency_policies (
    policy_id bigint GENERATED BY DEFAULT AS IDENTITY,
    tenant_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    policy_key text COLLATE "C" NOT NULL,
    source text NOT NULL,
    content_type text NOT NULL,
    conflict_action text COLLATE "C" NOT NULL,
    update_fields text[],
    secondary_match text COLLATE "C" NOT NULL DEFAULT 'always',
    enabled boolean NOT NULL DEFAULT true,

    CONSTRAINT idempotency_policies_pkey PRIMARY KEY (policy_id, tenant_id),
    CONSTRAINT idempotency_policies_key_is_unique UNIQUE (tenant_id, policy_key),
    CONSTRAINT idempotency_policies_key_length CHECK (octet_length(policy_key) BETWEEN 1 AND 1024),
    CONSTRAINT idempotency_policies_action_word CHECK (conflict_action IN ('skip', 'update')),
    CONSTRAINT idempotency_policies_match_word CHECK (secondary_match IN ('always', 'only_if_primary_missing'))
);
-- For another tenant they are written on its first look.
INSERT INTO {home}.idempotency_policies (policy_key, source, content_type, conflict_action, secondary_match)
VALUES ('telegram_thought_v1', 'telegram', 'thought', 'update', 'only_if_primary_missing'),
       ('telegram_link_v1', 'telegram', 'link', 'skip', 'always'),
       ('email_newsletter_v1', 'email', 'newsletter', 'skip', 'always'),
       ('email_correspondence_thread_v1', 'email', 'correspondence_thread', 'update', 'always');

-- Batches for enrichment.
CREATE TABLE {home}.t1_batches (
    tenant_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    batch_seq bigint GENERATED ALWAYS AS IDENTITY,
    import_id uuid,
    status text COLLATE "C" NOT NULL,
    completion_window text NOT NULL,
    request_count bigint NOT NULL,
    metadata jsonb,
    error text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,

    CONSTRAINT t1_batches_pkey PRIMARY KEY (batch_id, tenant_id),
    CONSTRAINT t1_batches_request_count_counts CHECK (request_count >= 0)
);
CREATE INDEX idx_t1_batches_import ON {home}.t1_batches (import_id, tenant_id, batch_seq) WHERE import_id IS NOT NULL;

-- What is in them, and what may get into one: the candidates of an import.
CREATE TABLE {home}.t1_batch_items (
    tenant_id uuid NOT NULL,
    item_id bigint GENERATED ALWAYS AS IDENTITY,
    batch_id uuid,
    import_id uuid,
    entry_id bigint,
    -- Of the text when it was queued.
    content_hash bytea,
    status text COLLATE "C" NOT NULL,
    error text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,

    CONSTRAINT t1_batch_items_pkey PRIMARY KEY (item_id, tenant_id),
    CONSTRAINT t1_batch_items_hash_is_a_sha256 CHECK (octet_length(content_hash) = 32)
);
CREATE UNIQUE INDEX t1_batch_items_candidate_is_unique ON {home}.t1_batch_items (entry_id, import_id, tenant_id)
    WHERE status = 'candidate';
-- Every row fulfils the condition on its number, as in imports.
CREATE INDEX idx_t1_batch_items_candidate ON {home}.t1_batch_items (import_id, tenant_id, item_id)
    WHERE status = 'candidate' AND item_id > 0;
CREATE INDEX idx_t1_batch_items_text ON {home}.t1_batch_items (entry_id, content_hash, tenant_id)
    WHERE status <> 'candidate';
CREATE INDEX idx_t1_batch_items_batch ON {home}.t1_batch_items (batch_id, tenant_id, item_id) WHERE batch_id IS NOT NULL;
        $home$, '{home}', home);

        FOREACH part IN ARRAY ARRAY['entries', 'entry_revisions', 'idempotency_policies', 't1_batches', 't1_batch_items']
        LOOP
            EXECUTE replace(replace($part$
ALTER TABLE {home}.{part} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {home}.{part} FORCE ROW LEVEL SECURITY;
CREATE POLICY {part}_tenant_isolation ON {home}.{part}
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
REVOKE ALL ON {home}.{part} FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON {home}.{part} TO hapax_app;
            $part$, '{home}', home), '{part}', part);
        END LOOP;

        EXECUTE replace($home$
REVOKE ALL ON SEQUENCE {home}.entries_entry_id_seq FROM PUBLIC;
GRANT USAGE ON SEQUENCE {home}.entries_entry_id_seq TO hapax_app;
-- What the words in hapax.words find of the tenant in hapax.tenant. Below a policy that only knows the tenant a search
-- cannot use the index of words, because its operator is not leakproof: both conditions have to be of one policy. So
-- the view belongs to a role whose only policy is that one, which therefore sees what the view shows and nothing else.
CREATE VIEW {home}.entries_found WITH (security_barrier = true) AS
SELECT e.entry_id, e.created_at, e.found_by
  FROM {home}.entries AS e
 WHERE e.tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid;
REVOKE ALL ON {home}.entries_found FROM PUBLIC;
GRANT SELECT ON {home}.entries_found TO hapax_app;
GRANT CREATE ON SCHEMA {home} TO hapax_janitor;
ALTER VIEW {home}.entries_found OWNER TO hapax_janitor;
REVOKE CREATE ON SCHEMA {home} FROM hapax_janitor;
GRANT SELECT (tenant_id, entry_id, created_at, found_by) ON {home}.entries TO hapax_janitor;
CREATE POLICY entries_found_by_words ON {home}.entries
    FOR SELECT TO hapax_janitor
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid
           AND found_by @@ plainto_tsquery('simple', pkm.searched(
               nullif(current_setting('hapax.words', true), '') || ' of' || replace(current_setting('hapax.tenant', true), '-', '')
           )));
-- What was replaced stays as it was; a candidate is all that is ever taken back.
REVOKE UPDATE ON {home}.entry_revisions FROM hapax_app;
GRANT DELETE ON {home}.t1_batch_items TO hapax_app;
        $home$, '{home}', home);
    END LOOP;
END
$homes$;
