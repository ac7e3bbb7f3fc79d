-- The job with this id, if it is this tenant's.
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms
  FROM job
 WHERE tenant_id = $1::uuid AND job_id = $2::text;
