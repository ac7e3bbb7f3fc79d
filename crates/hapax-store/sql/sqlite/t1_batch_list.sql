-- The batches of an import, oldest first.
SELECT batch_id, status, request_count
  FROM {schema}_t1_batches
 WHERE tenant_id = ?1 AND import_id = ?2
 ORDER BY batch_seq;
