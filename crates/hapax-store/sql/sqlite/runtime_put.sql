-- Writes the value of a key of this tenant.
INSERT INTO pkm_runtime_config (key, tenant_id, value)
VALUES (?1, ?2, ?3)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
