-- Whether this text of this entry was queued before.
SELECT EXISTS (
    SELECT 1
      FROM {schema}_t1_batch_items
     WHERE tenant_id = ?1 AND entry_id = ?2 AND content_hash = ?3 AND status <> 'candidate'
);
