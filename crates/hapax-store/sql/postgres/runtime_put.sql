-- Turns a tenant's test mode on or off.
INSERT INTO pkm.runtime_config (tenant_id, key, value)
VALUES ($1::uuid, $2::text, $3::text)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
RETURNING value;
