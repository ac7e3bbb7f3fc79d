-- Makes a batch of an import, to be sent at once.
INSERT INTO {schema}.t1_batches (
    tenant_id, batch_id, import_id, status, completion_window, request_count, next_at, created_at, updated_at
)
VALUES ($1::uuid, $2::uuid, $3::uuid, 'queued', $4::text, $5::bigint, $6::timestamptz, $6, $6);
