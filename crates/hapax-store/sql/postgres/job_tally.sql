-- How many jobs a tenant has, by kind and state, and how many of them somebody holds, each up to a number.
WITH RECURSIVE kinds (kind) AS (
    (SELECT kind FROM job WHERE tenant_id = $1::uuid AND seq > 0 ORDER BY kind LIMIT 1)
     UNION ALL
    SELECT n.kind
      FROM kinds AS k
     CROSS JOIN LATERAL (
           SELECT kind FROM job WHERE tenant_id = $1 AND seq > 0 AND kind > k.kind ORDER BY kind LIMIT 1
       ) AS n
), held (kind, state, jobs) AS MATERIALIZED (
    SELECT h.kind, h.state, count(1)
      FROM (SELECT kind, state
              FROM job
             WHERE tenant_id = $1
               AND lease_until > floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint
             LIMIT $3::bigint) AS h
     GROUP BY h.kind, h.state
)
SELECT k.kind, s.state, c.jobs,
       coalesce((SELECT h.jobs FROM held AS h WHERE h.kind = k.kind AND h.state = s.state), 0)
  FROM kinds AS k
 CROSS JOIN unnest($4::text[]) AS s (state)
 CROSS JOIN LATERAL (
       SELECT count(1) AS jobs
         FROM (SELECT 1 FROM job WHERE tenant_id = $1 AND kind = k.kind AND state = s.state AND seq > 0 LIMIT $3) AS seen
   ) AS c
 WHERE c.jobs > 0;
