-- A tenant's operations that are running without anyone to run them, longest first.
SELECT op.tenant_id, op.op_key
  FROM op JOIN job ON job.seq = op.job_seq
 WHERE op.state = 'running' AND op.tenant_id = ?1
   AND (op.epoch <> job.epoch
        OR (op.started_at <= ?3 AND (job.lease_until IS NULL OR job.lease_until <= ?2)))
 ORDER BY op.started_at
 LIMIT ?4;
