-- A page of entities with the numbers of their current snapshots, those that changed last first.
SELECT entity_id, label, snapshots, created_at, current_seq
  FROM entity
 WHERE tenant_id = ?1 AND collection = ?2
   AND (?3 IS NULL OR instr(lower(entity_id), lower(?3)) > 0 OR instr(lower(label), lower(?3)) > 0)
 ORDER BY current_seq DESC
 LIMIT ?4 OFFSET ?5;
