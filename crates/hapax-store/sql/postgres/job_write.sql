-- Writes these jobs as they are now. They are locked; what was planned stays as it is.
-- A value that all of them have is given once, after the lists of values, and its list is empty.
UPDATE job AS j
   SET place = coalesce(n.place, $19::text), state = coalesce(n.state, $20::text),
       standing = coalesce(n.standing, $21::text), lease_owner = coalesce(n.lease_owner, $22::text),
       lease_until = coalesce(n.lease_until, $23::bigint), epoch = coalesce(n.epoch, $24::bigint),
       attempts = coalesce(n.attempts, $25::bigint), failures = coalesce(n.failures, $26::bigint),
       available_at = coalesce(n.available_at, $27::bigint), redone = coalesce(n.redone, $28::bigint),
       retried = coalesce(n.retried, $29::bigint), result = coalesce(n.result, $30::text),
       error = coalesce(n.error, $31::text), updated_at = coalesce(n.updated_at, $32::bigint),
       later = coalesce(n.later, $33::bigint), listed = coalesce(n.listed, $34::text)
  FROM unnest(
           $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[],
           $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::bigint[], $17::bigint[],
           $18::text[]
       ) AS n (
           seq, place, state, standing, lease_owner, lease_until, epoch, attempts, failures,
           available_at, redone, retried, result, error, updated_at, later, listed
       )
 WHERE j.tenant_id = $1::uuid AND j.job_id <> '' AND j.seq = ANY($2::bigint[]) AND j.seq = n.seq;
