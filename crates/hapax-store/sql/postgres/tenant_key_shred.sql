-- Deletes every key of this tenant: what is sealed under them is never readable again. Returns their ids.
DELETE FROM tenant_key WHERE tenant_id = $1::uuid RETURNING key_id;
