-- Stores what an older program calls the text of a snapshot.
INSERT INTO snapshot_alias (snapshot_seq, nth, tenant_id, collection, profile, hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (snapshot_seq, nth) DO NOTHING;
