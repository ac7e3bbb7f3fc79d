-- The items of a batch after this one, in their order; with their own texts if those are asked for.
SELECT item_id, entry_id, content_hash, status, CASE WHEN ?4 THEN request END, raw, result, error, updated_at, missed_in
  FROM {schema}_t1_batch_items
 WHERE tenant_id = ?1 AND batch_id = ?2 AND item_id > ?3
 ORDER BY item_id
 LIMIT ?5;
