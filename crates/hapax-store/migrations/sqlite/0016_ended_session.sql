-- Sessions of browsers that somebody ended before their time, until they would have ended by themselves.
CREATE TABLE ended_session (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_ended_session_expires ON ended_session (expires_at);
