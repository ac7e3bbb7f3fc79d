-- The texts of a tenant's jobs, by their numbers after the given one, at most so many.
SELECT seq, job_id, payload, result, error
  FROM job
 WHERE tenant_id = $1::uuid AND job_id <> '' AND seq > $2::bigint
 ORDER BY seq
 LIMIT $3::bigint;
