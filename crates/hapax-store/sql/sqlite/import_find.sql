-- The import with this id, if it is this tenant's.
SELECT import_id, schema, path, batch_size, insert_chunk_size, completion_window, thread_policy, bytes, status, step,
       cursor_index, cursor_offset, cursor_mark, total_messages, normalized_ok, normalize_errors, inserted, updated,
       skipped, insert_errors, tier1_candidates, tier1_enqueued_items, errors, error, created_at, updated_at
  FROM imports
 WHERE tenant_id = ?1 AND import_id = ?2;
