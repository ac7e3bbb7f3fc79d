-- Makes a batch that somebody asked for, to be sent at once.
INSERT INTO {schema}.t1_batches (
    tenant_id, batch_id, status, completion_window, request_count, metadata, next_at, created_at, updated_at
)
VALUES ($1::uuid, $2::uuid, 'queued', $3::text, $4::bigint, $5::text::jsonb, $6::timestamptz, $6, $6);
