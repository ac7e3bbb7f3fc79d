-- Tenants from $3 to $4 that have something of these kinds to lease in a place now. One step along an index for each tenant.
WITH RECURSIVE tenant AS (
    SELECT $3::uuid AS id
     UNION ALL
    SELECT n.id
      FROM tenant AS t
     CROSS JOIN LATERAL (
           SELECT tenants.id
             FROM (
                   (SELECT tenant_id AS id FROM job_ready WHERE tenant_id > t.id ORDER BY tenant_id LIMIT 1)
                    UNION ALL
                   (SELECT tenant_id FROM job_later WHERE at IS NOT NULL AND tenant_id > t.id ORDER BY tenant_id LIMIT 1)
                  ) AS tenants
            ORDER BY tenants.id
            LIMIT 1
       ) AS n
     WHERE n.id <= $4::uuid
)
SELECT t.id
  FROM tenant AS t
 CROSS JOIN LATERAL (
       SELECT 1
         FROM unnest($1::text[]) AS k (kind)
        CROSS JOIN LATERAL (
              (SELECT 1 FROM job_ready AS r
                WHERE r.tenant_id = t.id AND r.place = $2::text AND r.kind = k.kind LIMIT 1)
               UNION ALL
              (SELECT 1 FROM job_later AS l
               CROSS JOIN LATERAL (
                      SELECT 1 FROM job AS j
                       WHERE j.tenant_id = t.id AND j.job_id <> '' AND j.seq = ANY(l.jobs)
                         AND (j.standing = 'resting'
                              AND j.available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $6::bigint) IS TRUE
                       LIMIT 1
                  ) AS over
                WHERE l.tenant_id = t.id AND l.place = $2 AND l.kind = k.kind
                  AND l.at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $6::bigint
                LIMIT 1)
          ) AS any_of
        LIMIT 1
   ) AS due
 LIMIT $5::bigint;
