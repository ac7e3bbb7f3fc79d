-- Marks jobs of these kinds whose rest or lease is over as ready, a bounded number of each kind.
WITH rested AS (
    SELECT j.job_id
      FROM unnest($3::text[]) AS k (kind)
     CROSS JOIN LATERAL (
           SELECT job_id
             FROM job
            WHERE standing = 'resting' AND tenant_id = $1::uuid AND place = $2::text AND kind = k.kind
              AND available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4::bigint
            ORDER BY available_at
            LIMIT $5::bigint
              FOR UPDATE SKIP LOCKED
       ) AS j
)
UPDATE job
   SET standing = 'ready'
 WHERE tenant_id = $1 AND job_id = ANY(ARRAY(SELECT job_id FROM rested));
