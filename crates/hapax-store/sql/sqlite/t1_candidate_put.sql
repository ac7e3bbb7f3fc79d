-- Makes an entry a candidate of an import, unless it is one.
INSERT INTO {schema}_t1_batch_items (tenant_id, import_id, entry_id, status, created_at, updated_at)
VALUES (?1, ?2, ?3, 'candidate', ?4, ?4)
ON CONFLICT (tenant_id, import_id, entry_id) WHERE status = 'candidate' DO NOTHING;
