-- A page of batches that did not end, newest first, made before the given time and number.
SELECT batch_seq, batch_id, import_id, status, completion_window, request_count, metadata, error, created_at, updated_at,
       version, attempt, failures, next_at, model, provider_batch_id, provider_status, input_file_id, output_file_id,
       error_file_id
  FROM {schema}_t1_batches INDEXED BY idx_{schema}_t1_batches_live
 WHERE tenant_id = ?1 AND (created_at, batch_seq) < (?2, ?3) AND status IN ('queued', 'submitted', 'collecting')
 ORDER BY created_at DESC, batch_seq DESC
 LIMIT ?4;
