-- Forgets the ended sessions that would have ended by now.
DELETE FROM ended_session WHERE expires_at < ?1;
