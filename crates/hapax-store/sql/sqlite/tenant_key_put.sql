-- Adds a key if the tenant has none of that number; otherwise changes nothing.
INSERT INTO tenant_key (tenant_id, number, key_id, kek_id, wrapped, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (tenant_id, number) DO NOTHING;
