-- The value of a key of this tenant.
SELECT value
  FROM pkm_runtime_config
 WHERE key = ?1 AND tenant_id = ?2;
