-- One tenant's jobs whose lease ran out, the oldest first.
SELECT tenant_id, job_id, epoch
  FROM job
 WHERE tenant_id = $1::uuid AND job_id <> ''
   AND seq = ANY(ARRAY(
           SELECT unnest(l.jobs)
             FROM job_later AS l
            WHERE l.tenant_id = $1 AND l.held
              AND (l.at IS NULL OR l.at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint)
       ))
   AND (lease_until <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2) IS TRUE
 ORDER BY lease_until
 LIMIT $3::bigint;
