-- Enrichment as it is kept: how far batches and their items are, what is asked and what was answered, and the answers
-- that were paid for.

-- What a model answered, under the hash of all that was asked. The time is UTC milliseconds, as beside the homes it
-- always is.
CREATE TABLE llm_answer (
    tenant_id uuid NOT NULL,
    request_key bytea NOT NULL,
    raw text NOT NULL,
    created_at bigint NOT NULL,

    -- With the tenant in it, and after the key: see idempotency_keys.
    CONSTRAINT llm_answer_pkey PRIMARY KEY (request_key, tenant_id),
    CONSTRAINT llm_answer_key_is_a_sha256 CHECK (octet_length(request_key) = 32)
);
ALTER TABLE llm_answer ENABLE ROW LEVEL SECURITY;
ALTER TABLE llm_answer FORCE ROW LEVEL SECURITY;
CREATE POLICY llm_answer_tenant_isolation ON llm_answer
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
REVOKE ALL ON llm_answer FROM PUBLIC;
-- The first answer stays, so nobody of ours changes one.
GRANT SELECT, INSERT ON llm_answer TO hapax_app;

-- What is being asked now, and by whom: a batch, or a request that somebody waits for. Until that is answered nobody
-- else asks the same.
CREATE TABLE llm_question (
    tenant_id uuid NOT NULL,
    request_key bytea NOT NULL,
    asker uuid NOT NULL,
    until bigint NOT NULL,

    CONSTRAINT llm_question_pkey PRIMARY KEY (request_key, tenant_id),
    CONSTRAINT llm_question_key_is_a_sha256 CHECK (octet_length(request_key) = 32)
);
CREATE INDEX idx_llm_question_asker ON llm_question (asker, tenant_id);
ALTER TABLE llm_question ENABLE ROW LEVEL SECURITY;
ALTER TABLE llm_question FORCE ROW LEVEL SECURITY;
CREATE POLICY llm_question_tenant_isolation ON llm_question
    FOR ALL TO hapax_app
    USING (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('hapax.tenant', true), '')::uuid);
REVOKE ALL ON llm_question FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON llm_question TO hapax_app;

-- The same in both homes.
DO $homes$
DECLARE
    home text;
BEGIN
    FOREACH home IN ARRAY ARRAY['pkm', 'pkm_test'] LOOP
        EXECUTE replace($home$
ALTER TABLE {home}.t1_batches
    ADD COLUMN version bigint NOT NULL DEFAULT 1,
    ADD COLUMN attempt bigint NOT NULL DEFAULT 1,
    ADD COLUMN failures bigint NOT NULL DEFAULT 0,
    -- Nothing is done about it before.
    ADD COLUMN next_at timestamptz NOT NULL DEFAULT '1970-01-01 00:00:00+00',
    ADD COLUMN model text,
    -- What the provider calls things.
    ADD COLUMN provider_batch_id text,
    ADD COLUMN provider_status text,
    ADD COLUMN input_file_id text,
    ADD COLUMN output_file_id text,
    ADD COLUMN error_file_id text,
    ADD CONSTRAINT t1_batches_status_word CHECK (status IN ('queued', 'submitted', 'collecting', 'completed', 'failed')),
    ADD CONSTRAINT t1_batches_counts CHECK (version > 0 AND attempt > 0 AND failures >= 0),
    ADD CONSTRAINT t1_batches_metadata_is_an_object CHECK (jsonb_typeof(metadata) = 'object');
-- What was queued already waits since it was made. An owner that row level security binds would see no row.
ALTER TABLE {home}.t1_batches NO FORCE ROW LEVEL SECURITY;
UPDATE {home}.t1_batches SET next_at = created_at;
ALTER TABLE {home}.t1_batches FORCE ROW LEVEL SECURITY;

CREATE INDEX idx_t1_batches_due ON {home}.t1_batches (next_at, batch_seq)
    WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_t1_batches_live ON {home}.t1_batches (tenant_id, created_at, batch_seq)
    WHERE status IN ('queued', 'submitted', 'collecting');
-- Every row fulfils the condition, as in imports.
CREATE INDEX idx_t1_batches_newest ON {home}.t1_batches (tenant_id, created_at, batch_seq) WHERE batch_seq > 0;

ALTER TABLE {home}.t1_batch_items
    -- The text of an item that is of no entry: title, author, content_type, clean_text. Of an entry it is the entry's.
    ADD COLUMN request jsonb,
    -- How long that is, so that a page can end without reading it.
    ADD COLUMN request_bytes bigint,
    -- What the model answered, and what was made of it.
    ADD COLUMN raw text,
    ADD COLUMN result jsonb,
    -- The first sending that brought it no answer.
    ADD COLUMN missed_in bigint,
    ADD CONSTRAINT t1_batch_items_status_word CHECK (
        status IN ('candidate', 'queued', 'waiting', 'answered', 'completed', 'stale', 'parse_error', 'failed')
    ),
    ADD CONSTRAINT t1_batch_items_request_is_an_object CHECK (jsonb_typeof(request) = 'object'),
    ADD CONSTRAINT t1_batch_items_missed_in_a_sending CHECK (missed_in > 0),
    ADD CONSTRAINT t1_batch_items_request_is_measured CHECK ((request IS NULL) = (request_bytes IS NULL));

-- Who looks for what is due serves every tenant, changes nothing, and sees no content.
CREATE POLICY t1_batches_overview ON {home}.t1_batches
    FOR SELECT TO hapax_janitor
    USING (status IN ('queued', 'submitted', 'collecting'));
GRANT SELECT (tenant_id, batch_id, batch_seq, status, attempt, next_at) ON {home}.t1_batches TO hapax_janitor;
        $home$, '{home}', home);
    END LOOP;
END
$homes$;
