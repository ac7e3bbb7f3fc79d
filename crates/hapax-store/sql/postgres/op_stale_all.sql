-- Every tenant's operations that run without anyone to run them. One step along an index for each tenant.
WITH RECURSIVE tenant AS (
    (SELECT tenant_id AS id FROM op WHERE state = 'running' ORDER BY tenant_id LIMIT 1)
     UNION ALL
    SELECT n.id
      FROM tenant AS t
     CROSS JOIN LATERAL (
           SELECT tenant_id AS id FROM op WHERE state = 'running' AND tenant_id > t.id ORDER BY tenant_id LIMIT 1
       ) AS n
)
SELECT dead.tenant_id, dead.op_key
  FROM tenant AS t
 CROSS JOIN LATERAL (
       SELECT o.tenant_id, o.op_key
         FROM (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $1::bigint) AS now (ms)
        CROSS JOIN op AS o
        CROSS JOIN LATERAL (
              SELECT epoch, lease_until FROM job WHERE job_id = o.job_id AND tenant_id = o.tenant_id LIMIT 1
          ) AS j
        WHERE o.state = 'running' AND o.tenant_id = t.id
          AND (o.epoch <> j.epoch
        OR ((j.lease_until IS NULL OR j.lease_until <= now.ms) AND o.started_at <= now.ms - $3::bigint))
        ORDER BY o.started_at
        LIMIT $2::bigint
   ) AS dead
 LIMIT $2;
