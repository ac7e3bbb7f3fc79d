-- The job with this id, if it is this tenant's, its payload included.
SELECT seq, tenant_id, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures,
       max_attempts, available_at, redone, retried, work_id, artifact_id, canonical_url,
       (SELECT payload FROM job_payload AS apart WHERE apart.job_seq = job.seq),
       result, error, created_at, updated_at, backoff_ms
  FROM job
 WHERE tenant_id = ?1 AND job_id = ?2;
