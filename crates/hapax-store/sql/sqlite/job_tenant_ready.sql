-- The next tenant that has ready jobs.
SELECT tenant_id
  FROM job
 WHERE standing = 'ready' AND tenant_id > ?1
 ORDER BY tenant_id
 LIMIT 1;
