-- The keys that seal a tenant's bodies, each wrapped by a master key which is never stored.
-- The number is unique per tenant, so that of two processes that add a key only one can.

CREATE TABLE tenant_key (
    tenant_id   BLOB    NOT NULL CHECK (length(tenant_id) = 16),
    number      INTEGER NOT NULL CHECK (number > 0),
    key_id      BLOB    NOT NULL CHECK (length(key_id) = 16),
    kek_id      TEXT    NOT NULL CHECK (length(kek_id) BETWEEN 1 AND 64),
    wrapped     BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,

    PRIMARY KEY (tenant_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_tenant_key_kek ON tenant_key (kek_id);
