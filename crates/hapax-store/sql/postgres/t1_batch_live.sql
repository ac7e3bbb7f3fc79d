-- A page of batches that did not end, newest first, made before the given time and number.
SELECT b.batch_seq, b.batch_id, b.import_id, b.completion_window, b.metadata::text, b.request_count, b.version,
       b.created_at, b.updated_at, b.status, b.attempt, b.failures, b.next_at, b.model, b.provider_batch_id,
       b.provider_status, b.input_file_id, b.output_file_id, b.error_file_id, b.error,
       (SELECT jsonb_object_agg(c.status, c.items)::text
          FROM (SELECT t.status, count(1) AS items
                  FROM {schema}.t1_batch_items AS t
                 WHERE t.tenant_id = $1 AND t.batch_id = b.batch_id
                 GROUP BY t.status) AS c)
  FROM {schema}.t1_batches AS b
 WHERE b.tenant_id = $1::uuid AND (b.created_at, b.batch_seq) < ($2::timestamptz, $3::bigint)
   AND b.status IN ('queued', 'submitted', 'collecting')
 ORDER BY b.created_at DESC, b.batch_seq DESC
 LIMIT $4::bigint;
