-- A tenant's jobs whose lease ran out, first planned first.
SELECT tenant_id, job_id, epoch
  FROM job
 WHERE lease_until IS NOT NULL AND tenant_id = ?1 AND lease_until <= ?2
 ORDER BY seq
 LIMIT ?3;
