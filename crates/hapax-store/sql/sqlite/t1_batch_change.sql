-- Changes the state of a batch, if nobody did since this version.
UPDATE {schema}_t1_batches
   SET status = ?4,
       attempt = ?5,
       failures = ?6,
       next_at = ?7,
       model = ?8,
       provider_batch_id = ?9,
       provider_status = ?10,
       input_file_id = ?11,
       output_file_id = ?12,
       error_file_id = ?13,
       error = ?14,
       updated_at = max(updated_at, ?15),
       version = version + 1
 WHERE tenant_id = ?1 AND batch_id = ?2 AND version = ?3;
