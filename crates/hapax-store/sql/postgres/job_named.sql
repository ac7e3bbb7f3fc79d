-- The jobs of one tenant that each name may stand for: the one with this id, the one with this key, and those whose id begins
-- as a UUID does.
SELECT n.nth, j.job_id, j.job_key
  FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS n (name, first, last, nth)
 CROSS JOIN LATERAL (
       SELECT job_id, job_key FROM job WHERE tenant_id = $1::uuid AND job_id = n.name
        UNION ALL
       SELECT job_id, job_key FROM job WHERE tenant_id = $1::uuid AND job_key = n.name
        UNION ALL
       SELECT b.job_id, b.job_key
         FROM (
              SELECT job_id, job_key
                FROM job
               WHERE tenant_id = $1::uuid AND job_id >= n.first AND job_id < n.last
               ORDER BY job_id
               LIMIT 16
          ) AS b
   ) AS j;
