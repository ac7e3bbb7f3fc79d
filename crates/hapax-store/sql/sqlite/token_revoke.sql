-- Revokes a token. Revoking twice keeps the first time.
UPDATE token SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1;
