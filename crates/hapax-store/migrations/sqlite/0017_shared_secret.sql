-- What every process that uses this ledger knows and nothing else does: it marks what is kept elsewhere, so that nobody plants an
-- answer there.
CREATE TABLE shared_secret (
    name    TEXT NOT NULL PRIMARY KEY,
    secret  BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT, WITHOUT ROWID;

INSERT INTO shared_secret (name, secret) VALUES ('mark', randomblob(32));
