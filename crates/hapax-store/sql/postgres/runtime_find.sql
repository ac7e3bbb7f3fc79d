-- A tenant's test mode as it is stored, NULL if it is not, and the time.
SELECT (SELECT c.value FROM pkm.runtime_config AS c WHERE c.tenant_id = $1::uuid AND c.key = $2::text), clock_timestamp();
