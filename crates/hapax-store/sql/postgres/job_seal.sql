-- Stores the texts of jobs sealed, each if nobody changed them meanwhile. What they say does not change. Returns those written.
UPDATE job AS j
   SET payload = n.payload, result = n.result, error = n.error
  FROM unnest(
           $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]
       ) AS n (seq, payload, result, error, old_payload, old_result, old_error)
 WHERE j.tenant_id = $1::uuid AND j.job_id <> '' AND j.seq = ANY($2::bigint[]) AND j.seq = n.seq
   AND j.payload IS NOT DISTINCT FROM n.old_payload AND j.result IS NOT DISTINCT FROM n.old_result
   AND j.error IS NOT DISTINCT FROM n.old_error
RETURNING j.seq;
