-- Writes who saw a snapshot when, in the place of the oldest if there is no room left.
INSERT INTO observation (snapshot_seq, place, tenant_id, nth, at, seen_by, key_match)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (snapshot_seq, place) DO UPDATE
   SET nth = excluded.nth, at = excluded.at, seen_by = excluded.seen_by, key_match = excluded.key_match;
