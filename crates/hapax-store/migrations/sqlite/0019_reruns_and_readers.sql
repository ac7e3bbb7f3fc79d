-- Which messages the row of a thread has merged: one that comes again is skipped. The hash is that of the mail's message
-- id, else of its content. There are never more than the thread has states.
CREATE TABLE pkm_entry_messages (
    tenant_id  BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    entry_id   INTEGER NOT NULL,
    message    BLOB    NOT NULL CHECK (length(message) = 32),

    PRIMARY KEY (entry_id, message, tenant_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pkm_test_entry_messages (
    tenant_id  BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    entry_id   INTEGER NOT NULL,
    message    BLOB    NOT NULL CHECK (length(message) = 32),

    PRIMARY KEY (entry_id, message, tenant_id)
) STRICT, WITHOUT ROWID;
