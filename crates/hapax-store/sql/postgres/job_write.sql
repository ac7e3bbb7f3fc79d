-- Writes these jobs as they are now. They are locked; what was planned stays as it is.
UPDATE job AS j
   SET place = n.place, state = n.state, standing = n.standing, lease_owner = n.lease_owner,
       lease_until = n.lease_until, epoch = n.epoch, attempts = n.attempts, failures = n.failures,
       available_at = n.available_at, redone = n.redone, retried = n.retried, result = n.result, error = n.error,
       updated_at = n.updated_at, later = n.later, listed = n.listed
  FROM unnest(
           $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[],
           $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::bigint[],
           $17::bigint[], $18::text[]
       ) AS n (
           seq, place, state, standing, lease_owner, lease_until, epoch, attempts,
           failures, available_at, redone, retried, result, error, updated_at, later, listed
       )
 WHERE j.tenant_id = $1::uuid AND j.job_id <> '' AND j.seq = ANY($2::bigint[]) AND j.seq = n.seq;
