-- The operations of an older program that belong to a job, in the order they were begun.
SELECT old.op_key, job.seq, old.op_type, old.started_at, old.finished_at, old.result_code, old.result_json,
       old.job_id
  FROM artifact_ops_before AS old JOIN job ON job.tenant_id = ?1 AND job.job_id = old.job_id
 ORDER BY old.started_at, old.rowid;
