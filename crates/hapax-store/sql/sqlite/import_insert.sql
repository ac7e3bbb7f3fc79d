-- Writes a new import at the beginning of its file.
INSERT INTO imports (
    tenant_id, import_id, schema, path, path_hash, batch_size, insert_chunk_size, completion_window, thread_policy, bytes,
    status, step, cursor_index, cursor_offset, total_messages, normalized_ok, normalize_errors, inserted, updated, skipped,
    insert_errors, tier1_candidates, tier1_enqueued_items, errors, created_at, updated_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'running', 'reading', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '[]', ?11, ?11);
