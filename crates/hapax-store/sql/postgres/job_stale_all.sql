-- Every tenant's jobs whose lease ran out. One step along an index for each tenant that holds something.
WITH RECURSIVE tenant AS (
    (SELECT tenant_id AS id FROM job_later WHERE held ORDER BY tenant_id LIMIT 1)
     UNION ALL
    SELECT n.id
      FROM tenant AS t
     CROSS JOIN LATERAL (
           SELECT tenant_id AS id FROM job_later WHERE held AND tenant_id > t.id ORDER BY tenant_id LIMIT 1
       ) AS n
)
SELECT j.tenant_id, j.job_id, j.epoch
  FROM tenant AS t
 CROSS JOIN LATERAL (
       SELECT tenant_id, job_id, epoch
         FROM job
        WHERE tenant_id = t.id AND job_id <> ''
          AND seq = ANY(ARRAY(
                  SELECT unnest(l.jobs)
                    FROM job_later AS l
                   WHERE l.tenant_id = t.id AND l.held
                     AND (l.at IS NULL OR l.at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $1::bigint)
              ))
          AND (lease_until <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $1) IS TRUE
        ORDER BY lease_until
        LIMIT $2::bigint
   ) AS j
 LIMIT $2;
