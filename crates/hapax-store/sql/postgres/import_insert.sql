-- Begins an import. Fails if somebody began one of the same path or id at this moment.
INSERT INTO imports (
    tenant_id, import_id, schema, path, path_hash, batch_size, insert_chunk_size, completion_window, thread_policy, bytes,
    status, step, cursor_index, cursor_offset, total_messages, normalized_ok, normalize_errors, inserted, updated,
    skipped, insert_errors, tier1_candidates, tier1_enqueued_items, errors, created_at, updated_at
)
VALUES (
    $1::uuid, $2::uuid, $3::text, $4::text, $5::bytea, $6::bigint, $7::bigint, $8::text, $9::text, $10::bigint,
    'running', 'reading', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '[]', $11::bigint, $11::bigint
);
