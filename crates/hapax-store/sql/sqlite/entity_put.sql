-- Makes a new snapshot the current one of its entity, and counts it.
INSERT INTO entity (tenant_id, collection, entity_id, label, current_seq, current_id, snapshots, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7)
    ON CONFLICT (tenant_id, collection, entity_id) DO UPDATE
   SET label = excluded.label, current_seq = excluded.current_seq, current_id = excluded.current_id,
       snapshots = snapshots + 1;
