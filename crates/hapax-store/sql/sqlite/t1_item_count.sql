-- How many items of a batch are how far.
SELECT status, count(1)
  FROM {schema}_t1_batch_items
 WHERE tenant_id = ?1 AND batch_id = ?2
 GROUP BY status;
