-- Tenants from $2 to $3 that have something of any kind to lease in a place now. One step along an index for each tenant.
WITH RECURSIVE tenant AS (
    SELECT $2::uuid AS id
     UNION ALL
    SELECT n.id
      FROM tenant AS t
     CROSS JOIN LATERAL (
           SELECT tenants.id
             FROM (
                   (SELECT tenant_id AS id FROM job WHERE standing = 'ready' AND tenant_id > t.id ORDER BY tenant_id LIMIT 1)
                    UNION ALL
                   (SELECT tenant_id FROM job WHERE standing = 'resting' AND tenant_id > t.id ORDER BY tenant_id LIMIT 1)
                  ) AS tenants
            ORDER BY tenants.id
            LIMIT 1
       ) AS n
     WHERE n.id <= $3::uuid
)
SELECT t.id
  FROM tenant AS t
 CROSS JOIN LATERAL (
       SELECT 1
         FROM (
               (SELECT 1 FROM job AS j WHERE j.standing = 'ready' AND j.tenant_id = t.id AND j.place = $1::text LIMIT 1)
                UNION ALL
               (SELECT 1
                  FROM (
                        WITH RECURSIVE kind AS (
                            (SELECT j.kind FROM job AS j
                              WHERE j.standing = 'resting' AND j.tenant_id = t.id AND j.place = $1
                              ORDER BY j.kind LIMIT 1)
                             UNION ALL
                            SELECT n.kind
                              FROM kind AS k
                             CROSS JOIN LATERAL (
                                   SELECT j.kind FROM job AS j
                                    WHERE j.standing = 'resting' AND j.tenant_id = t.id AND j.place = $1 AND j.kind > k.kind
                                    ORDER BY j.kind LIMIT 1
                               ) AS n
                        )
                        SELECT kind FROM kind
                       ) AS k
                 CROSS JOIN LATERAL (
                       SELECT 1 FROM job AS j
                        WHERE j.standing = 'resting' AND j.tenant_id = t.id AND j.place = $1 AND j.kind = k.kind
                          AND j.available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $5::bigint LIMIT 1
                   ) AS rested
                 LIMIT 1)
              ) AS any_of
        LIMIT 1
   ) AS due
 LIMIT $4::bigint;
