-- Where what ran is written down. Anybody may read it, so that a restricted login sees that nothing is pending.
CREATE TABLE IF NOT EXISTS schema_migration (
    number bigint PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
