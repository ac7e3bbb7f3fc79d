-- Writes a new batch, to be sent at once.
INSERT INTO {schema}_t1_batches (
    batch_id, tenant_id, import_id, status, completion_window, request_count, metadata, next_at, created_at, updated_at
) VALUES (?1, ?2, ?3, 'queued', ?4, ?5, ?6, ?7, ?7, ?7);
