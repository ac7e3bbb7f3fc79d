-- The master keys that wrap any tenant's key, each named once.
SELECT DISTINCT kek_id FROM tenant_key ORDER BY kek_id LIMIT 100;
