-- The jobs of all tenants whose lease ran out.
SELECT tenant_id, job_id, epoch
  FROM job
 WHERE lease_until IS NOT NULL AND lease_until <= ?1
 ORDER BY tenant_id, seq
 LIMIT ?2;
