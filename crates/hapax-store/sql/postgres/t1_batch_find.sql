-- The batch with this id, with how many of its items are how far, if it is this tenant's.
SELECT b.batch_seq, b.batch_id, b.import_id, b.completion_window, b.metadata::text, b.request_count, b.version,
       b.created_at, b.updated_at, b.status, b.attempt, b.failures, b.next_at, b.model, b.provider_batch_id,
       b.provider_status, b.input_file_id, b.output_file_id, b.error_file_id, b.error,
       (SELECT jsonb_object_agg(c.status, c.items)::text
          FROM (SELECT t.status, count(1) AS items
                  FROM {schema}.t1_batch_items AS t
                 WHERE t.tenant_id = $1 AND t.batch_id = b.batch_id
                 GROUP BY t.status) AS c)
  FROM {schema}.t1_batches AS b
 WHERE b.tenant_id = $1::uuid AND b.batch_id = $2::uuid;
