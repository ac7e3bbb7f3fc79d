-- Revokes a token from the given time on; an earlier revocation stays.
UPDATE token SET revoked_at = coalesce(revoked_at, $2::timestamptz) WHERE id = $1::uuid
RETURNING id;
