-- How far an item of this batch is, and what it is about.
SELECT status, entry_id, content_hash
  FROM {schema}_t1_batch_items
 WHERE item_id = ?1 AND tenant_id = ?2 AND batch_id = ?3;
