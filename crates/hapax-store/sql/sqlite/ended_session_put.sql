-- Ends a session for as long as it would have lasted. Ending it twice changes nothing.
INSERT INTO ended_session (id, expires_at) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING;
