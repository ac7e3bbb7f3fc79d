-- Stores the payload of a new snapshot, which is never changed.
INSERT INTO snapshot_payload (snapshot_seq, payload) VALUES (?1, ?2);
