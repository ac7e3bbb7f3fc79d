-- All keys of this tenant, oldest first.
SELECT tenant_id, number, key_id, kek_id, wrapped FROM tenant_key WHERE tenant_id = $1::uuid ORDER BY number;
