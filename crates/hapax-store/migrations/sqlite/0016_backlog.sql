-- What a busy writer has noted down and not filed yet: moves of new keys, in the order they were made, one row per commit.
-- A key whose moves stand here has no row in idempotency_keys; it gets one, with all that became of it, when the backlog is filed.
CREATE TABLE idempotency_backlog (
    seq    INTEGER NOT NULL PRIMARY KEY,
    -- Which opened ledger wrote it: that one knows in memory what it says.
    writer BLOB    NOT NULL CHECK (length(writer) = 16),
    moves  BLOB    NOT NULL
) STRICT;

-- No row may be added beside a backlog, which may hold the same key. Who knows of the backlog files it first; a program
-- that does not is refused instead of being granted a key that somebody has.
CREATE TRIGGER idempotency_keys_come_after_the_backlog BEFORE INSERT ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM idempotency_backlog)
BEGIN
    SELECT raise(ABORT, 'the backlog of this ledger is not filed; upgrade every program that uses the file');
END;
