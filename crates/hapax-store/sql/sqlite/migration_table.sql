-- The list of migrations that ran. The one table that no migration makes.
CREATE TABLE IF NOT EXISTS schema_migration (
    number      INTEGER NOT NULL PRIMARY KEY,
    name        TEXT    NOT NULL,
    sha256      TEXT    NOT NULL CHECK (length(sha256) = 64),
    applied_at  INTEGER NOT NULL
) STRICT;
