-- A page of one tenant's jobs that have an operation of this kind that waits for an answer, newest first, from before the
-- given place. Every open question is looked at, and nothing else.
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms
  FROM job
 WHERE tenant_id = $1::uuid
   AND job_id = ANY(ARRAY(
           SELECT o.job_id FROM op AS o WHERE o.tenant_id = $1 AND o.kind = $3::text AND o.state = 'waiting'
       ))
   AND seq < $2::bigint
   AND ($4::text IS NULL OR kind = $4)
 ORDER BY seq DESC
 LIMIT $5::bigint;
