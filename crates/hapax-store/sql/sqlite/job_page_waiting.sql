-- The numbers of a tenant's jobs that have an operation of a kind that waits for an answer, newest first.
SELECT DISTINCT job_seq
  FROM op
 WHERE tenant_id = ?1 AND kind = ?2 AND state = 'waiting' AND job_seq < ?3
   AND (?4 IS NULL OR (SELECT job.kind FROM job WHERE job.seq = op.job_seq) = ?4)
 ORDER BY job_seq DESC
 LIMIT ?5;
