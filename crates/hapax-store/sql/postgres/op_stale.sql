-- One tenant's operations that run without anyone to run them: their job is with another lease, or with nobody for long.
SELECT o.tenant_id, o.op_key
  FROM (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint) AS now (ms)
 CROSS JOIN op AS o
 CROSS JOIN LATERAL (
       SELECT epoch, lease_until FROM job WHERE job_id = o.job_id AND tenant_id = o.tenant_id LIMIT 1
   ) AS j
 WHERE o.state = 'running' AND o.tenant_id = $1::uuid
   AND (o.epoch <> j.epoch
        OR ((j.lease_until IS NULL OR j.lease_until <= now.ms) AND o.started_at <= now.ms - $4::bigint))
 ORDER BY o.started_at
 LIMIT $3::bigint;
