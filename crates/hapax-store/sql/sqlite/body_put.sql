-- Keeps a large body beside its row, in place of an earlier one of the same part.
INSERT INTO idempotency_body (tenant_id, id, part, body)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (tenant_id, id, part) DO UPDATE SET body = excluded.body;
