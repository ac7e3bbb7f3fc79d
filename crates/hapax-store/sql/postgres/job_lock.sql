-- The jobs with these ids and those of these operations, which nobody else changes until this transaction ends.
-- Locked in the order of their ids, so that no two transactions wait for each other.
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms,
       standing, later, listed
  FROM job
 WHERE tenant_id = $1::uuid
   AND job_id = ANY($2::text[] || ARRAY(
           SELECT o.job_id FROM op AS o WHERE o.tenant_id = $1::uuid AND o.op_key = ANY($3::text[])
       ))
 ORDER BY job_id
   FOR UPDATE;
