-- Enrichment as it is kept: how far batches and their items are, and the answers that were paid for. The words of a
-- status that is there already are checked beside the first new column, for a table's own checks cannot be added to.

-- The real home.

ALTER TABLE pkm_t1_batches ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0)
    CHECK (status IN ('queued', 'submitted', 'collecting', 'completed', 'failed'));
ALTER TABLE pkm_t1_batches ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt > 0);
ALTER TABLE pkm_t1_batches ADD COLUMN failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0);
-- Nothing is done about it before. What was queued already waits since it was made.
ALTER TABLE pkm_t1_batches ADD COLUMN next_at INTEGER NOT NULL DEFAULT 0;
UPDATE pkm_t1_batches SET next_at = created_at;
ALTER TABLE pkm_t1_batches ADD COLUMN model TEXT;
-- What the provider calls things.
ALTER TABLE pkm_t1_batches ADD COLUMN provider_batch_id TEXT;
ALTER TABLE pkm_t1_batches ADD COLUMN provider_status TEXT;
ALTER TABLE pkm_t1_batches ADD COLUMN input_file_id TEXT;
ALTER TABLE pkm_t1_batches ADD COLUMN output_file_id TEXT;
ALTER TABLE pkm_t1_batches ADD COLUMN error_file_id TEXT;

CREATE INDEX idx_pkm_t1_batches_due ON pkm_t1_batches (next_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_t1_batches_live ON pkm_t1_batches (tenant_id, created_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_t1_batches_newest ON pkm_t1_batches (tenant_id, created_at, batch_seq);

-- The text of an item that is of no entry: title, author, content_type, clean_text. Of an entry it is the entry's.
ALTER TABLE pkm_t1_batch_items ADD COLUMN request TEXT CHECK (json_valid(request) AND json_type(request) = 'object')
    CHECK (status IN ('candidate', 'queued', 'waiting', 'answered', 'completed', 'stale', 'parse_error', 'failed'));
-- What the model answered, and what was made of it.
ALTER TABLE pkm_t1_batch_items ADD COLUMN raw TEXT;
ALTER TABLE pkm_t1_batch_items ADD COLUMN result TEXT CHECK (json_valid(result));
-- The first sending that brought it no answer.
ALTER TABLE pkm_t1_batch_items ADD COLUMN missed_in INTEGER CHECK (missed_in > 0);

CREATE INDEX idx_pkm_t1_items_status ON pkm_t1_batch_items (tenant_id, batch_id, status, item_id)
 WHERE batch_id IS NOT NULL;

-- The home to try things on: the same again.

ALTER TABLE pkm_test_t1_batches ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0)
    CHECK (status IN ('queued', 'submitted', 'collecting', 'completed', 'failed'));
ALTER TABLE pkm_test_t1_batches ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt > 0);
ALTER TABLE pkm_test_t1_batches ADD COLUMN failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0);
-- Nothing is done about it before. What was queued already waits since it was made.
ALTER TABLE pkm_test_t1_batches ADD COLUMN next_at INTEGER NOT NULL DEFAULT 0;
UPDATE pkm_test_t1_batches SET next_at = created_at;
ALTER TABLE pkm_test_t1_batches ADD COLUMN model TEXT;
-- What the provider calls things.
ALTER TABLE pkm_test_t1_batches ADD COLUMN provider_batch_id TEXT;
ALTER TABLE pkm_test_t1_batches ADD COLUMN provider_status TEXT;
ALTER TABLE pkm_test_t1_batches ADD COLUMN input_file_id TEXT;
ALTER TABLE pkm_test_t1_batches ADD COLUMN output_file_id TEXT;
ALTER TABLE pkm_test_t1_batches ADD COLUMN error_file_id TEXT;

CREATE INDEX idx_pkm_test_t1_batches_due ON pkm_test_t1_batches (next_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_test_t1_batches_live ON pkm_test_t1_batches (tenant_id, created_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_test_t1_batches_newest ON pkm_test_t1_batches (tenant_id, created_at, batch_seq);

-- The text of an item that is of no entry: title, author, content_type, clean_text. Of an entry it is the entry's.
ALTER TABLE pkm_test_t1_batch_items ADD COLUMN request TEXT CHECK (json_valid(request) AND json_type(request) = 'object')
    CHECK (status IN ('candidate', 'queued', 'waiting', 'answered', 'completed', 'stale', 'parse_error', 'failed'));
-- What the model answered, and what was made of it.
ALTER TABLE pkm_test_t1_batch_items ADD COLUMN raw TEXT;
ALTER TABLE pkm_test_t1_batch_items ADD COLUMN result TEXT CHECK (json_valid(result));
-- The first sending that brought it no answer.
ALTER TABLE pkm_test_t1_batch_items ADD COLUMN missed_in INTEGER CHECK (missed_in > 0);

CREATE INDEX idx_pkm_test_t1_items_status ON pkm_test_t1_batch_items (tenant_id, batch_id, status, item_id)
 WHERE batch_id IS NOT NULL;

-- What a model answered, under the hash of all that was asked. The first answer stays.
CREATE TABLE llm_answer (
    tenant_id    BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    request_key  BLOB    NOT NULL CHECK (length(request_key) = 32),
    raw          TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,

    PRIMARY KEY (request_key, tenant_id)
) STRICT;

-- What is being asked now, and by whom: a batch, or a request that somebody waits for. Until that is answered nobody else
-- asks the same.
CREATE TABLE llm_question (
    tenant_id    BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    request_key  BLOB    NOT NULL CHECK (length(request_key) = 32),
    asker        BLOB    NOT NULL CHECK (length(asker) = 16),
    until        INTEGER NOT NULL,

    PRIMARY KEY (request_key, tenant_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_llm_question_asker ON llm_question (tenant_id, asker);
