-- Writes how far an item is. What is not given of its answer, its result and its first miss stays.
UPDATE {schema}_t1_batch_items
   SET status = ?4,
       raw = coalesce(?5, raw),
       result = coalesce(?6, result),
       error = ?7,
       missed_in = coalesce(missed_in, ?9),
       updated_at = max(updated_at, ?8)
 WHERE item_id = ?1 AND tenant_id = ?2 AND batch_id = ?3;
