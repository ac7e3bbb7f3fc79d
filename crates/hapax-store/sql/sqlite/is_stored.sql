-- Whether there is a row with this id that is this tenant's. Nearly always there is none, and the index alone says so.
SELECT 1 FROM idempotency_keys WHERE tenant_id = ?1 AND id = ?2;
