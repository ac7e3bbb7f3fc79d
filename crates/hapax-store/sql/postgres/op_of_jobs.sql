-- The operations of several jobs, those of each oldest first.
SELECT tenant_id, op_key, job_id, kind, state, class, epoch, token, tries, started_at, finished_at, result, error
  FROM op
 WHERE tenant_id = $1::uuid AND job_id = ANY($2::text[])
 ORDER BY job_id, seq;
