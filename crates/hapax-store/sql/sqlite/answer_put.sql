-- Keeps what was answered to this, unless something was.
INSERT INTO llm_answer (tenant_id, request_key, raw, created_at)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (request_key, tenant_id) DO NOTHING;
