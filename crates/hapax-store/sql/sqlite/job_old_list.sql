-- The jobs of an older program, in the order they were planned.
SELECT job_id, work_id, artifact_id, canonical_url, state, lease_owner, lease_until, created_at, updated_at,
       idempotency_key
  FROM artifact_jobs_before
 ORDER BY created_at, rowid;
