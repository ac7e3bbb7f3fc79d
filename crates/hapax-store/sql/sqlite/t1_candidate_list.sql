-- The candidates of an import.
SELECT item_id, entry_id
  FROM {schema}_t1_batch_items
 WHERE tenant_id = ?1 AND import_id = ?2 AND status = 'candidate'
 ORDER BY entry_id
 LIMIT ?3;
