-- Lists these jobs of a kind under another state than before.
UPDATE job_list
   SET state = $4::text
 WHERE ctid = ANY(ARRAY(
           SELECT l.ctid
             FROM unnest($5::bigint[]) AS n (seq)
            CROSS JOIN LATERAL (
                  SELECT ctid
                    FROM job_list
                   WHERE tenant_id = $1::uuid AND kind = $2::text AND state = $3::text AND seq = n.seq
                   LIMIT 1
              ) AS l
       ));
