-- Adds a key if the tenant has none of that number; otherwise changes nothing. Returns the number if it did.
INSERT INTO tenant_key (tenant_id, number, key_id, kek_id, wrapped, created_at)
VALUES ($1::uuid, $2::bigint, $3::uuid, $4::text, $5::bytea, clock_timestamp())
    ON CONFLICT (tenant_id, number) DO NOTHING
RETURNING number;
