-- The numbers of a tenant's jobs that have an operation in doubt, newest first.
SELECT DISTINCT job_seq
  FROM op
 WHERE tenant_id = ?1 AND state = 'in_doubt' AND job_seq < ?2
   AND (?3 IS NULL OR (SELECT job.kind FROM job WHERE job.seq = op.job_seq) = ?3)
 ORDER BY job_seq DESC
 LIMIT ?4;
