-- Takes these jobs out of the queue, each by its own place in it.
DELETE FROM job_ready
 WHERE ctid = ANY(ARRAY(
           SELECT r.ctid
             FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS n (place, kind, attempts, seq)
            CROSS JOIN LATERAL (
                  SELECT ctid
                    FROM job_ready
                   WHERE tenant_id = $1::uuid AND place = n.place AND kind = n.kind AND attempts = n.attempts AND seq = n.seq
                   LIMIT 1
              ) AS r
       ));
