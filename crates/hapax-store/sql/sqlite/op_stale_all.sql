-- The operations of all tenants that are running without anyone to run them.
SELECT op.tenant_id, op.op_key
  FROM op JOIN job ON job.seq = op.job_seq
 WHERE op.state = 'running'
   AND (op.epoch <> job.epoch
        OR (op.started_at <= ?2 AND (job.lease_until IS NULL OR job.lease_until <= ?1)))
 ORDER BY op.tenant_id, op.started_at
 LIMIT ?3;
