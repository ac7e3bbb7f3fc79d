-- Ends a session for as long as it would have lasted, and forgets those that would have ended by now. Ending it twice changes nothing.
WITH over AS (
    DELETE FROM ended_session WHERE expires_at < $3::timestamptz AND id <> $1::uuid
)
INSERT INTO ended_session (id, expires_at)
VALUES ($1::uuid, $2::timestamptz)
    ON CONFLICT (id) DO NOTHING;
