-- The next tenant that has resting jobs.
SELECT tenant_id
  FROM job
 WHERE standing = 'resting' AND tenant_id > ?1
 ORDER BY tenant_id
 LIMIT 1;
