-- One tenant's jobs whose lease ran out, the oldest first.
SELECT tenant_id, job_id, epoch
  FROM job
 WHERE tenant_id = $1::uuid AND lease_until <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint
 ORDER BY lease_until
 LIMIT $3::bigint;
