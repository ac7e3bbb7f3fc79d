-- A page of one tenant's jobs, newest first, from before the given place.
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms
  FROM job
 WHERE tenant_id = $1::uuid AND seq > 0 AND seq < $2::bigint
   AND ($3::text IS NULL OR kind = $3)
   AND ($4::text IS NULL OR state = $4)
   AND ($5::text IS NULL OR work_id = $5)
   AND (NOT $6::boolean OR lease_until > floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $8::bigint)
 ORDER BY seq DESC
 LIMIT $7::bigint;
