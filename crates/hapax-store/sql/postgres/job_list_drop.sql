-- Takes these jobs out of the lists, each from under the state that it was listed under.
DELETE FROM job_list
 WHERE ctid = ANY(ARRAY(
           SELECT l.ctid
             FROM unnest($2::text[], $3::text[], $4::bigint[]) AS n (kind, state, seq)
            CROSS JOIN LATERAL (
                  SELECT ctid
                    FROM job_list
                   WHERE tenant_id = $1::uuid AND kind = n.kind AND state = n.state AND seq = n.seq
                   LIMIT 1
              ) AS l
       ));
