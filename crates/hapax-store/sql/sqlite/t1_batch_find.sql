-- The batch with this id, if it is this tenant's.
SELECT batch_seq, batch_id, import_id, status, completion_window, request_count, metadata, error, created_at, updated_at,
       version, attempt, failures, next_at, model, provider_batch_id, provider_status, input_file_id, output_file_id,
       error_file_id
  FROM {schema}_t1_batches
 WHERE tenant_id = ?1 AND batch_id = ?2;
