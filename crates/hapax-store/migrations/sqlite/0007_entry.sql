-- Entries of a knowledge base in two homes, pkm for real and pkm_test to try things on, each with the same tables.
-- SQLite has no schemas, so the home is the first part of a table's name. Times are UTC milliseconds.

-- What changes while programs run. The test mode says which home is written to; a missing row is off.
CREATE TABLE pkm_runtime_config (
    key        TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL,
    tenant_id  BLOB NOT NULL DEFAULT X'00000000000000000000000000000000' CHECK (length(tenant_id) = 16),

    -- One row cannot stand for two tenants: another tenant's key ends with its id.
    CHECK (CASE WHEN tenant_id = X'00000000000000000000000000000000' THEN substr(key, 1, 13) <> 'is_test_mode/'
                ELSE replace(substr(key, -36), '-', '') = lower(hex(tenant_id)) AND substr(key, -37, 1) = '/' END),
    CHECK (substr(key, 1, 12) <> 'is_test_mode'
           OR lower(CASE WHEN value LIKE '"_%"' THEN substr(value, 2, length(value) - 2) ELSE value END)
              IN ('true', 'false', 't', 'f', 'on', 'off', 'yes', 'no', '1', '0'))
) STRICT;

INSERT INTO pkm_runtime_config (key, value) VALUES ('is_test_mode', 'false');

-- Backlogs that are read in, and how far each is.
CREATE TABLE imports (
    import_seq            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id             BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    import_id             BLOB    NOT NULL CHECK (length(import_id) = 16),
    schema                TEXT    NOT NULL CHECK (schema IN ('pkm', 'pkm_test')),
    path                  TEXT    NOT NULL,
    -- A path may be longer than an index is good for.
    path_hash             BLOB    NOT NULL CHECK (length(path_hash) = 32),
    batch_size            INTEGER NOT NULL CHECK (batch_size > 0),
    insert_chunk_size     INTEGER NOT NULL CHECK (insert_chunk_size > 0),
    completion_window     TEXT    NOT NULL,
    thread_policy         TEXT,
    bytes                 INTEGER CHECK (bytes >= 0),
    status                TEXT    NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
    step                  TEXT    NOT NULL CHECK (step IN ('reading', 'queueing')),
    cursor_index          INTEGER NOT NULL CHECK (cursor_index >= 0),
    cursor_offset         INTEGER NOT NULL CHECK (cursor_offset >= 0),
    cursor_mark           TEXT,
    total_messages        INTEGER NOT NULL CHECK (total_messages >= 0),
    normalized_ok         INTEGER NOT NULL CHECK (normalized_ok >= 0),
    normalize_errors      INTEGER NOT NULL CHECK (normalize_errors >= 0),
    inserted              INTEGER NOT NULL CHECK (inserted >= 0),
    updated               INTEGER NOT NULL CHECK (updated >= 0),
    skipped               INTEGER NOT NULL CHECK (skipped >= 0),
    insert_errors         INTEGER NOT NULL CHECK (insert_errors >= 0),
    tier1_candidates      INTEGER NOT NULL CHECK (tier1_candidates >= 0),
    tier1_enqueued_items  INTEGER NOT NULL CHECK (tier1_enqueued_items >= 0),
    errors                TEXT    NOT NULL CHECK (json_valid(errors) AND json_type(errors) = 'array'),
    error                 TEXT,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,

    UNIQUE (tenant_id, import_id)
) STRICT;

CREATE UNIQUE INDEX idx_imports_running ON imports (tenant_id, path_hash) WHERE status = 'running';
CREATE INDEX idx_imports_newest ON imports (tenant_id, import_seq);

-- The real home.

CREATE TABLE pkm_entries (
    entry_id                    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id                   BLOB    NOT NULL DEFAULT X'00000000000000000000000000000000' CHECK (length(tenant_id) = 16),
    id                          BLOB    NOT NULL DEFAULT (randomblob(16)) CHECK (length(id) = 16),
    created_at                  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    updated_at                  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    revision                    INTEGER NOT NULL DEFAULT 1 CHECK (revision > 0),
    source                      TEXT    NOT NULL,
    intent                      TEXT,
    content_type                TEXT,
    title                       TEXT,
    author                      TEXT,
    capture_text                TEXT,
    extracted_text              TEXT,
    clean_text                  TEXT,
    url                         TEXT,
    url_canonical               TEXT,
    retrieval_excerpt           TEXT,
    retrieval_version           TEXT,
    clean_word_count            INTEGER CHECK (clean_word_count >= 0),
    clean_char_count            INTEGER CHECK (clean_char_count >= 0),
    extracted_char_count        INTEGER CHECK (extracted_char_count >= 0),
    link_count                  INTEGER CHECK (link_count >= 0),
    link_ratio                  REAL,
    boilerplate_heavy           INTEGER CHECK (boilerplate_heavy IN (0, 1)),
    low_signal                  INTEGER CHECK (low_signal IN (0, 1)),
    quality_score               REAL,
    topic_primary               TEXT,
    topic_primary_confidence    REAL,
    topic_secondary             TEXT,
    topic_secondary_confidence  REAL,
    keywords                    TEXT    CHECK (json_valid(keywords) AND json_type(keywords) = 'array'),
    gist                        TEXT,
    flags                       TEXT    CHECK (json_valid(flags) AND json_type(flags) = 'object'),
    enrichment_status           TEXT,
    enrichment_model            TEXT,
    prompt_version              TEXT,
    enriched_hash               TEXT,
    metadata                    TEXT    CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    idempotency_policy_key      TEXT,
    idempotency_key_primary     TEXT    CHECK (length(CAST(idempotency_key_primary AS BLOB)) BETWEEN 1 AND 1024),
    idempotency_key_secondary   TEXT    CHECK (length(CAST(idempotency_key_secondary AS BLOB)) BETWEEN 1 AND 1024),
    -- The hash of what enrichment reads, written with every write.
    text_hash                   BLOB    CHECK (length(text_hash) = 32),
    -- The revision whose words the program put into the index. Triggers do it for whoever else writes here.
    words_revision              INTEGER NOT NULL DEFAULT 0,

    UNIQUE (tenant_id, id)
) STRICT;

CREATE UNIQUE INDEX idx_pkm_entries_primary ON pkm_entries (tenant_id, idempotency_policy_key, idempotency_key_primary)
 WHERE idempotency_key_primary IS NOT NULL;
CREATE UNIQUE INDEX idx_pkm_entries_secondary
    ON pkm_entries (tenant_id, idempotency_policy_key, idempotency_key_secondary)
 WHERE idempotency_key_secondary IS NOT NULL;
CREATE INDEX idx_pkm_entries_created ON pkm_entries (tenant_id, created_at, entry_id);

-- The words of entries, in small letters and with nothing but spaces between them. The text is not kept twice.
CREATE VIRTUAL TABLE pkm_entry_words USING fts5 (
    title, author, clean_text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0'
);

CREATE TRIGGER pkm_entries_inserted AFTER INSERT ON pkm_entries
WHEN new.words_revision = 0
BEGIN
    INSERT INTO pkm_entry_words (rowid, title, author, clean_text)
    VALUES (new.entry_id, substr(new.title, 1, 100000), substr(new.author, 1, 100000), substr(new.clean_text, 1, 100000));
END;

CREATE TRIGGER pkm_entries_deleted AFTER DELETE ON pkm_entries BEGIN
    DELETE FROM pkm_entry_words WHERE rowid = old.entry_id;
END;

CREATE TRIGGER pkm_entries_updated AFTER UPDATE OF entry_id, title, author, clean_text ON pkm_entries
WHEN new.words_revision = old.words_revision
 AND (old.entry_id IS NOT new.entry_id OR old.title IS NOT new.title OR old.author IS NOT new.author
      OR old.clean_text IS NOT new.clean_text)
BEGIN
    DELETE FROM pkm_entry_words WHERE rowid = old.entry_id;
    INSERT INTO pkm_entry_words (rowid, title, author, clean_text)
    VALUES (new.entry_id, substr(new.title, 1, 100000), substr(new.author, 1, 100000), substr(new.clean_text, 1, 100000));
END;

-- Every state of an entry that was replaced, whole.
CREATE TABLE pkm_entry_revisions (
    tenant_id    BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    entry_id     INTEGER NOT NULL,
    revision     INTEGER NOT NULL CHECK (revision > 0),
    row          TEXT    NOT NULL CHECK (json_valid(row) AND json_type(row) = 'object'),
    replaced_at  INTEGER NOT NULL,

    PRIMARY KEY (entry_id, revision, tenant_id)
) STRICT;

-- What a second entry of the same key does. A row that somebody adds by hand is the default tenant's.
CREATE TABLE pkm_idempotency_policies (
    policy_id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id        BLOB    NOT NULL DEFAULT X'00000000000000000000000000000000' CHECK (length(tenant_id) = 16),
    policy_key       TEXT    NOT NULL,
    source           TEXT    NOT NULL,
    content_type     TEXT    NOT NULL,
    conflict_action  TEXT    NOT NULL CHECK (conflict_action IN ('skip', 'update')),
    -- A JSON list of columns; NULL for all that come in.
    update_fields    TEXT    CHECK (json_valid(update_fields) AND json_type(update_fields) = 'array'),
    secondary_match  TEXT    NOT NULL DEFAULT 'always' CHECK (secondary_match IN ('always', 'only_if_primary_missing')),
    enabled          INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),

    UNIQUE (tenant_id, policy_key)
) STRICT;

INSERT INTO pkm_idempotency_policies (policy_key, source, content_type, conflict_action, secondary_match)
VALUES ('telegram_thought_v1', 'telegram', 'thought', 'update', 'only_if_primary_missing'),
       ('telegram_link_v1', 'telegram', 'link', 'skip', 'always'),
       ('email_newsletter_v1', 'email', 'newsletter', 'skip', 'always'),
       ('email_correspondence_thread_v1', 'email', 'correspondence_thread', 'update', 'always');

-- What is to be enriched: batches, and the entries in them.
CREATE TABLE pkm_t1_batches (
    batch_seq          INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    batch_id           BLOB    NOT NULL CHECK (length(batch_id) = 16),
    tenant_id          BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    import_id          BLOB    CHECK (length(import_id) = 16),
    status             TEXT    NOT NULL,
    completion_window  TEXT    NOT NULL,
    request_count      INTEGER NOT NULL CHECK (request_count >= 0),
    metadata           TEXT    CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    error              TEXT,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,

    UNIQUE (tenant_id, batch_id)
) STRICT;

CREATE INDEX idx_pkm_t1_batches_import ON pkm_t1_batches (tenant_id, import_id, batch_seq) WHERE import_id IS NOT NULL;

CREATE TABLE pkm_t1_batch_items (
    item_id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id     BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    batch_id      BLOB    CHECK (length(batch_id) = 16),
    import_id     BLOB    CHECK (length(import_id) = 16),
    entry_id      INTEGER,
    -- Of the text when it was queued.
    content_hash  BLOB    CHECK (length(content_hash) = 32),
    status        TEXT    NOT NULL,
    error         TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,

    CHECK (content_hash IS NOT NULL OR status = 'candidate')
) STRICT;

-- A row becomes one candidate of an import, however many messages touched it.
CREATE UNIQUE INDEX idx_pkm_t1_items_candidate ON pkm_t1_batch_items (tenant_id, import_id, entry_id)
 WHERE status = 'candidate';
CREATE INDEX idx_pkm_t1_items_entry ON pkm_t1_batch_items (tenant_id, entry_id, content_hash);
CREATE INDEX idx_pkm_t1_items_batch ON pkm_t1_batch_items (tenant_id, batch_id) WHERE batch_id IS NOT NULL;

-- The home to try things on: the same tables again.

CREATE TABLE pkm_test_entries (
    entry_id                    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id                   BLOB    NOT NULL DEFAULT X'00000000000000000000000000000000' CHECK (length(tenant_id) = 16),
    id                          BLOB    NOT NULL DEFAULT (randomblob(16)) CHECK (length(id) = 16),
    created_at                  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    updated_at                  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    revision                    INTEGER NOT NULL DEFAULT 1 CHECK (revision > 0),
    source                      TEXT    NOT NULL,
    intent                      TEXT,
    content_type                TEXT,
    title                       TEXT,
    author                      TEXT,
    capture_text                TEXT,
    extracted_text              TEXT,
    clean_text                  TEXT,
    url                         TEXT,
    url_canonical               TEXT,
    retrieval_excerpt           TEXT,
    retrieval_version           TEXT,
    clean_word_count            INTEGER CHECK (clean_word_count >= 0),
    clean_char_count            INTEGER CHECK (clean_char_count >= 0),
    extracted_char_count        INTEGER CHECK (extracted_char_count >= 0),
    link_count                  INTEGER CHECK (link_count >= 0),
    link_ratio                  REAL,
    boilerplate_heavy           INTEGER CHECK (boilerplate_heavy IN (0, 1)),
    low_signal                  INTEGER CHECK (low_signal IN (0, 1)),
    quality_score               REAL,
    topic_primary               TEXT,
    topic_primary_confidence    REAL,
    topic_secondary             TEXT,
    topic_secondary_confidence  REAL,
    keywords                    TEXT    CHECK (json_valid(keywords) AND json_type(keywords) = 'array'),
    gist                        TEXT,
    flags                       TEXT    CHECK (json_valid(flags) AND json_type(flags) = 'object'),
    enrichment_status           TEXT,
    enrichment_model            TEXT,
    prompt_version              TEXT,
    enriched_hash               TEXT,
    metadata                    TEXT    CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    idempotency_policy_key      TEXT,
    idempotency_key_primary     TEXT    CHECK (length(CAST(idempotency_key_primary AS BLOB)) BETWEEN 1 AND 1024),
    idempotency_key_secondary   TEXT    CHECK (length(CAST(idempotency_key_secondary AS BLOB)) BETWEEN 1 AND 1024),
    -- The hash of what enrichment reads, written with every write.
    text_hash                   BLOB    CHECK (length(text_hash) = 32),
    -- The revision whose words the program put into the index. Triggers do it for whoever else writes here.
    words_revision              INTEGER NOT NULL DEFAULT 0,

    UNIQUE (tenant_id, id)
) STRICT;

CREATE UNIQUE INDEX idx_pkm_test_entries_primary
    ON pkm_test_entries (tenant_id, idempotency_policy_key, idempotency_key_primary)
 WHERE idempotency_key_primary IS NOT NULL;
CREATE UNIQUE INDEX idx_pkm_test_entries_secondary
    ON pkm_test_entries (tenant_id, idempotency_policy_key, idempotency_key_secondary)
 WHERE idempotency_key_secondary IS NOT NULL;
CREATE INDEX idx_pkm_test_entries_created ON pkm_test_entries (tenant_id, created_at, entry_id);

-- The words of entries, in small letters and with nothing but spaces between them. The text is not kept twice.
CREATE VIRTUAL TABLE pkm_test_entry_words USING fts5 (
    title, author, clean_text, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0'
);

CREATE TRIGGER pkm_test_entries_inserted AFTER INSERT ON pkm_test_entries
WHEN new.words_revision = 0
BEGIN
    INSERT INTO pkm_test_entry_words (rowid, title, author, clean_text)
    VALUES (new.entry_id, substr(new.title, 1, 100000), substr(new.author, 1, 100000), substr(new.clean_text, 1, 100000));
END;

CREATE TRIGGER pkm_test_entries_deleted AFTER DELETE ON pkm_test_entries BEGIN
    DELETE FROM pkm_test_entry_words WHERE rowid = old.entry_id;
END;

CREATE TRIGGER pkm_test_entries_updated AFTER UPDATE OF entry_id, title, author, clean_text ON pkm_test_entries
WHEN new.words_revision = old.words_revision
 AND (old.entry_id IS NOT new.entry_id OR old.title IS NOT new.title OR old.author IS NOT new.author
      OR old.clean_text IS NOT new.clean_text)
BEGIN
    DELETE FROM pkm_test_entry_words WHERE rowid = old.entry_id;
    INSERT INTO pkm_test_entry_words (rowid, title, author, clean_text)
    VALUES (new.entry_id, substr(new.title, 1, 100000), substr(new.author, 1, 100000), substr(new.clean_text, 1, 100000));
END;

-- Every state of an entry that was replaced, whole.
CREATE TABLE pkm_test_entry_revisions (
    tenant_id    BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    entry_id     INTEGER NOT NULL,
    revision     INTEGER NOT NULL CHECK (revision > 0),
    row          TEXT    NOT NULL CHECK (json_valid(row) AND json_type(row) = 'object'),
    replaced_at  INTEGER NOT NULL,

    PRIMARY KEY (entry_id, revision, tenant_id)
) STRICT;

-- What a second entry of the same key does. A row that somebody adds by hand is the default tenant's.
CREATE TABLE pkm_test_idempotency_policies (
    policy_id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id        BLOB    NOT NULL DEFAULT X'00000000000000000000000000000000' CHECK (length(tenant_id) = 16),
    policy_key       TEXT    NOT NULL,
    source           TEXT    NOT NULL,
    content_type     TEXT    NOT NULL,
    conflict_action  TEXT    NOT NULL CHECK (conflict_action IN ('skip', 'update')),
    -- A JSON list of columns; NULL for all that come in.
    update_fields    TEXT    CHECK (json_valid(update_fields) AND json_type(update_fields) = 'array'),
    secondary_match  TEXT    NOT NULL DEFAULT 'always' CHECK (secondary_match IN ('always', 'only_if_primary_missing')),
    enabled          INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),

    UNIQUE (tenant_id, policy_key)
) STRICT;

INSERT INTO pkm_test_idempotency_policies (policy_key, source, content_type, conflict_action, secondary_match)
VALUES ('telegram_thought_v1', 'telegram', 'thought', 'update', 'only_if_primary_missing'),
       ('telegram_link_v1', 'telegram', 'link', 'skip', 'always'),
       ('email_newsletter_v1', 'email', 'newsletter', 'skip', 'always'),
       ('email_correspondence_thread_v1', 'email', 'correspondence_thread', 'update', 'always');

-- What is to be enriched: batches, and the entries in them.
CREATE TABLE pkm_test_t1_batches (
    batch_seq          INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    batch_id           BLOB    NOT NULL CHECK (length(batch_id) = 16),
    tenant_id          BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    import_id          BLOB    CHECK (length(import_id) = 16),
    status             TEXT    NOT NULL,
    completion_window  TEXT    NOT NULL,
    request_count      INTEGER NOT NULL CHECK (request_count >= 0),
    metadata           TEXT    CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    error              TEXT,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,

    UNIQUE (tenant_id, batch_id)
) STRICT;

CREATE INDEX idx_pkm_test_t1_batches_import ON pkm_test_t1_batches (tenant_id, import_id, batch_seq)
 WHERE import_id IS NOT NULL;

CREATE TABLE pkm_test_t1_batch_items (
    item_id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant_id     BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    batch_id      BLOB    CHECK (length(batch_id) = 16),
    import_id     BLOB    CHECK (length(import_id) = 16),
    entry_id      INTEGER,
    -- Of the text when it was queued.
    content_hash  BLOB    CHECK (length(content_hash) = 32),
    status        TEXT    NOT NULL,
    error         TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,

    CHECK (content_hash IS NOT NULL OR status = 'candidate')
) STRICT;

-- A row becomes one candidate of an import, however many messages touched it.
CREATE UNIQUE INDEX idx_pkm_test_t1_items_candidate ON pkm_test_t1_batch_items (tenant_id, import_id, entry_id)
 WHERE status = 'candidate';
CREATE INDEX idx_pkm_test_t1_items_entry ON pkm_test_t1_batch_items (tenant_id, entry_id, content_hash);
CREATE INDEX idx_pkm_test_t1_items_batch ON pkm_test_t1_batch_items (tenant_id, batch_id) WHERE batch_id IS NOT NULL;
