-- The entity with this id and the number of its current snapshot.
SELECT entity_id, label, snapshots, created_at, current_seq
  FROM entity
 WHERE tenant_id = ?1 AND collection = ?2 AND entity_id = ?3;
