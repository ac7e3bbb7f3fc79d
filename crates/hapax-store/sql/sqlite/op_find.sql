-- The operation with this key, if it is this tenant's.
SELECT op.tenant_id, op.op_key, job.job_id, op.kind, op.state, op.class, op.epoch, op.token, op.tries, op.started_at,
       op.finished_at, op.result, op.error, op.job_seq
  FROM op JOIN job ON job.seq = op.job_seq
 WHERE op.tenant_id = ?1 AND op.op_key = ?2;
