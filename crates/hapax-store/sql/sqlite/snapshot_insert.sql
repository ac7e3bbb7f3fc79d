-- Writes a new snapshot, seen once, and gives it its number. Its hash and its id must be new.
INSERT INTO snapshot (
    tenant_id, collection, id, entity_id, label, payload_hash, hash_state, created_at, seen_at, seen
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'there', ?7, ?7, 1);
