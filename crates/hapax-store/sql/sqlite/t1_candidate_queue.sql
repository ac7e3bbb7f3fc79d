-- Puts a candidate into a batch, with its text as it is now.
UPDATE {schema}_t1_batch_items
   SET batch_id = ?3, content_hash = ?4, status = 'queued', updated_at = ?5
 WHERE item_id = ?1 AND tenant_id = ?2 AND status = 'candidate';
