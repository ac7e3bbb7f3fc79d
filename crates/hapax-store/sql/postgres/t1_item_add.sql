-- Puts these items into a batch, in the order given.
INSERT INTO {schema}.t1_batch_items (
    tenant_id, batch_id, entry_id, content_hash, status, request, request_bytes, created_at, updated_at
)
SELECT $1::uuid, $2::uuid, n.entry_id, n.content_hash, 'queued', n.request::jsonb, n.request_bytes, $3::timestamptz, $3
  FROM unnest($4::bigint[], $5::bytea[], $6::text[], $7::bigint[])
       WITH ORDINALITY AS n (entry_id, content_hash, request, request_bytes, nth)
 ORDER BY n.nth;
