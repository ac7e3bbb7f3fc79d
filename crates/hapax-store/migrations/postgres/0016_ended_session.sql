-- Sessions of browsers that somebody ended before their time, until they would have ended by themselves. It tells nobody
-- whose they were.
CREATE TABLE ended_session (
    id uuid NOT NULL,
    expires_at timestamptz NOT NULL,

    CONSTRAINT ended_session_pkey PRIMARY KEY (id)
);

CREATE INDEX idx_ended_session_expires ON ended_session (expires_at);

ALTER TABLE ended_session ENABLE ROW LEVEL SECURITY;
ALTER TABLE ended_session FORCE ROW LEVEL SECURITY;

-- Whoever checks a session names it first; the app cannot list them.
CREATE POLICY ended_session_by_id ON ended_session
    FOR SELECT TO hapax_app
    USING (id = nullif(current_setting('hapax.session_id', true), '')::uuid);

CREATE POLICY ended_session_administration ON ended_session
    FOR ALL TO hapax_janitor
    USING (true)
    WITH CHECK (true);

REVOKE ALL ON ended_session FROM PUBLIC;
GRANT SELECT ON ended_session TO hapax_app;
GRANT SELECT, INSERT, DELETE ON ended_session TO hapax_janitor;
