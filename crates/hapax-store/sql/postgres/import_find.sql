-- The import with this id, with its batches, if it is this tenant's.
SELECT i.import_id, i.schema, i.path, i.batch_size, i.insert_chunk_size, i.completion_window, i.thread_policy,
       i.bytes, i.status, i.step, i.cursor_index, i.cursor_offset, i.cursor_mark, i.total_messages, i.normalized_ok,
       i.normalize_errors, i.inserted, i.updated, i.skipped, i.insert_errors, i.tier1_candidates,
       i.tier1_enqueued_items, i.errors::text, i.error, i.created_at, i.updated_at,
       CASE i.schema
           WHEN 'pkm' THEN (
               SELECT jsonb_agg(jsonb_build_array(b.batch_id, b.status, b.request_count) ORDER BY b.batch_seq)::text
                 FROM pkm.t1_batches AS b
                WHERE b.tenant_id = $1 AND b.import_id = i.import_id
           )
           ELSE (
               SELECT jsonb_agg(jsonb_build_array(b.batch_id, b.status, b.request_count) ORDER BY b.batch_seq)::text
                 FROM pkm_test.t1_batches AS b
                WHERE b.tenant_id = $1 AND b.import_id = i.import_id
           )
       END
  FROM imports AS i
 WHERE i.tenant_id = $1::uuid AND i.import_id = $2::uuid;
