-- Whether anything of these kinds is ready, even if somebody else is taking it.
SELECT EXISTS (
    SELECT 1
      FROM unnest($3::text[]) AS k (kind)
     CROSS JOIN LATERAL (
           SELECT 1 FROM job_ready WHERE tenant_id = $1::uuid AND place = $2::text AND kind = k.kind LIMIT 1
       ) AS r
);
