-- Forgets a candidate whose text needs no enrichment.
DELETE FROM {schema}_t1_batch_items
 WHERE item_id = ?1 AND tenant_id = ?2 AND status = 'candidate';
