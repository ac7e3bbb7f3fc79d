-- A page of imports, newest first, after the one with the given id if there is one.
SELECT import_id, schema, path, batch_size, insert_chunk_size, completion_window, thread_policy, bytes, status, step,
       cursor_index, cursor_offset, cursor_mark, total_messages, normalized_ok, normalize_errors, inserted, updated,
       skipped, insert_errors, tier1_candidates, tier1_enqueued_items, errors, error, created_at, updated_at
  FROM imports
 WHERE tenant_id = ?1
   AND import_seq < CASE WHEN ?2 IS NULL THEN 9223372036854775807
                         ELSE (SELECT last.import_seq FROM imports AS last WHERE last.tenant_id = ?1 AND last.import_id = ?2)
                    END
 ORDER BY import_seq DESC
 LIMIT ?3;
