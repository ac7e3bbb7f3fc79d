-- The texts of a tenant's jobs, by their numbers after the given one, at most so many.
SELECT j.seq, j.job_id, p.payload, j.result, j.error
  FROM job AS j
  LEFT JOIN job_payload AS p ON p.job_seq = j.seq
 WHERE j.tenant_id = ?1 AND j.seq > ?2
 ORDER BY j.seq
 LIMIT ?3;
