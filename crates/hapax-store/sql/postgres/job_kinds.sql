-- The kinds that a tenant has in the queue of a place. One step along an index for each, however many jobs it has.
WITH RECURSIVE ready AS (
    (SELECT kind FROM job_ready
      WHERE tenant_id = $1::uuid AND place = $2::text
      ORDER BY kind LIMIT 1)
     UNION ALL
    SELECT n.kind
      FROM ready AS r
     CROSS JOIN LATERAL (
           SELECT kind FROM job_ready
            WHERE tenant_id = $1::uuid AND place = $2::text AND kind > r.kind
            ORDER BY kind LIMIT 1
       ) AS n
), later AS (
    (SELECT kind FROM job_later
      WHERE tenant_id = $1::uuid AND place = $2::text AND at IS NOT NULL
      ORDER BY kind LIMIT 1)
     UNION ALL
    SELECT n.kind
      FROM later AS l
     CROSS JOIN LATERAL (
           SELECT kind FROM job_later
            WHERE tenant_id = $1::uuid AND place = $2::text AND at IS NOT NULL AND kind > l.kind
            ORDER BY kind LIMIT 1
       ) AS n
)
SELECT kind FROM ready
 UNION
SELECT kind FROM later;
