-- Puts an item into a batch.
INSERT INTO {schema}_t1_batch_items (
    tenant_id, batch_id, entry_id, content_hash, status, request, created_at, updated_at
) VALUES (?1, ?2, ?3, ?4, 'queued', ?5, ?6, ?6);
