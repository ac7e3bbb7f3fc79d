-- Turns a tenant's test mode into the other, in one step. A missing one was off.
INSERT INTO pkm.runtime_config AS c (tenant_id, key, value)
VALUES ($1::uuid, $2::text, 'true')
    ON CONFLICT (key) DO UPDATE
   SET value = CASE WHEN lower(btrim(c.value, '"')) IN ('true', 't', 'on', 'yes', '1') THEN 'false' ELSE 'true' END
RETURNING value;
