-- The next kind by name of which a tenant has jobs.
SELECT kind
  FROM job
 WHERE tenant_id = ?1 AND kind > ?2
 ORDER BY kind
 LIMIT 1;
