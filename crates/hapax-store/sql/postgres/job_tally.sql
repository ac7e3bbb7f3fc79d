-- How many jobs a tenant has, by kind and state, and how many of them somebody holds, each up to a number. Jobs that were
-- leased and made no step yet are still listed where they were before; they are all held, and counted as what they are.
WITH RECURSIVE kinds (kind) AS (
    (SELECT kind FROM job_list WHERE tenant_id = $1::uuid ORDER BY kind LIMIT 1)
     UNION ALL
    SELECT n.kind
      FROM kinds AS k
     CROSS JOIN LATERAL (
           SELECT kind FROM job_list WHERE tenant_id = $1 AND kind > k.kind ORDER BY kind LIMIT 1
       ) AS n
), leased AS MATERIALIZED (
    SELECT kind, state, listed, lease_until
      FROM job
     WHERE tenant_id = $1 AND job_id <> ''
       AND seq = ANY(ARRAY(SELECT unnest(l.jobs) FROM job_later AS l WHERE l.tenant_id = $1 AND l.held))
       AND (lease_until IS NOT NULL) IS TRUE
), held (kind, state, jobs) AS MATERIALIZED (
    SELECT kind, state, least(count(1), $3::bigint)
      FROM leased
     WHERE lease_until > floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint
     GROUP BY kind, state
), moved (kind, state, jobs) AS MATERIALIZED (
    SELECT m.kind, m.state, sum(m.jobs)::bigint
      FROM (
            SELECT kind, state, count(1) AS jobs FROM leased WHERE listed IS NOT NULL GROUP BY kind, state
             UNION ALL
            SELECT kind, listed, -count(1) FROM leased WHERE listed IS NOT NULL GROUP BY kind, listed
           ) AS m
     GROUP BY m.kind, m.state
)
SELECT k.kind, s.state, least(c.jobs + m.jobs, $3),
       coalesce((SELECT h.jobs FROM held AS h WHERE h.kind = k.kind AND h.state = s.state), 0)
  FROM kinds AS k
 CROSS JOIN unnest($4::text[]) AS s (state)
 CROSS JOIN LATERAL (
       SELECT coalesce((SELECT d.jobs FROM moved AS d WHERE d.kind = k.kind AND d.state = s.state), 0) AS jobs
   ) AS m
 CROSS JOIN LATERAL (
       SELECT count(1) AS jobs
         FROM (SELECT 1
                 FROM job_list
                WHERE tenant_id = $1 AND kind = k.kind AND state = s.state
                LIMIT CASE WHEN m.jobs < 0 AND $3 < 1000000000000 THEN $3 - m.jobs ELSE $3 END) AS seen
   ) AS c
 WHERE c.jobs + m.jobs > 0;
