-- Migration 8 of SQLite in a file that is new: the same tables and indexes, without adding column by column to tables that nobody has
-- filled, for each of which SQLite reads all it knows of the file anew. A test holds the two together.

PRAGMA writable_schema = ON;

UPDATE sqlite_schema
   SET sql = replace(sql,
           '    updated_at         INTEGER NOT NULL,',
           '    updated_at         INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0)
    CHECK (status IN (''queued'', ''submitted'', ''collecting'', ''completed'', ''failed'')), '
           || 'attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt > 0), failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0), '
           || 'next_at INTEGER NOT NULL DEFAULT 0, model TEXT, provider_batch_id TEXT, provider_status TEXT, input_file_id TEXT, '
           || 'output_file_id TEXT, error_file_id TEXT,')
 WHERE type = 'table' AND name IN ('pkm_t1_batches', 'pkm_test_t1_batches');

UPDATE sqlite_schema
   SET sql = replace(sql,
           '    updated_at    INTEGER NOT NULL,',
           '    updated_at    INTEGER NOT NULL, request TEXT CHECK (json_valid(request) AND json_type(request) = ''object'')
    CHECK (status IN (''candidate'', ''queued'', ''waiting'', ''answered'', ''completed'', ''stale'', ''parse_error'', ''failed'')), '
           || 'raw TEXT, result TEXT CHECK (json_valid(result)), missed_in INTEGER CHECK (missed_in > 0),')
 WHERE type = 'table' AND name IN ('pkm_t1_batch_items', 'pkm_test_t1_batch_items');

PRAGMA writable_schema = RESET;

CREATE INDEX idx_pkm_t1_batches_due ON pkm_t1_batches (next_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_t1_batches_live ON pkm_t1_batches (tenant_id, created_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_t1_batches_newest ON pkm_t1_batches (tenant_id, created_at, batch_seq);
CREATE INDEX idx_pkm_t1_items_status ON pkm_t1_batch_items (tenant_id, batch_id, status, item_id)
 WHERE batch_id IS NOT NULL;
CREATE INDEX idx_pkm_test_t1_batches_due ON pkm_test_t1_batches (next_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_test_t1_batches_live ON pkm_test_t1_batches (tenant_id, created_at, batch_seq)
 WHERE status IN ('queued', 'submitted', 'collecting');
CREATE INDEX idx_pkm_test_t1_batches_newest ON pkm_test_t1_batches (tenant_id, created_at, batch_seq);
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
