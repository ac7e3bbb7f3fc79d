-- Whether anything of these kinds is ready, even if somebody else is taking it.
SELECT EXISTS (
    SELECT 1
      FROM unnest($3::text[]) AS k (kind)
     CROSS JOIN LATERAL (
           SELECT 1
             FROM job
            WHERE standing = 'ready' AND tenant_id = $1::uuid AND place = $2::text AND kind = k.kind
              AND available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4::bigint
            LIMIT 1
       ) AS j
);
