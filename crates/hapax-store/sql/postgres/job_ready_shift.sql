-- Takes these jobs out of the queue, which were together at its head: from the first to the last of each kind and number of
-- attempts there is little else.
DELETE FROM job_ready
 WHERE ctid = ANY(ARRAY(
           SELECT r.ctid
             FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) AS g (kind, attempts, first, last)
            CROSS JOIN LATERAL (
                  SELECT ctid, seq
                    FROM job_ready
                   WHERE tenant_id = $1::uuid AND place = $2::text AND kind = g.kind AND attempts = g.attempts
                     AND seq >= g.first AND seq <= g.last
                   ORDER BY seq
                   LIMIT 1000000
              ) AS r
             JOIN unnest($7::bigint[]) AS n (seq) ON n.seq = r.seq
       ));
