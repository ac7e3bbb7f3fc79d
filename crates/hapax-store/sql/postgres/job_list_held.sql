-- A page of one tenant's jobs that somebody holds, newest first, from before the given place. Held are a few of all.
WITH found AS MATERIALIZED (
    SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
           available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms
      FROM job
     WHERE tenant_id = $1::uuid AND job_id <> ''
       AND seq = ANY(ARRAY(SELECT unnest(l.jobs) FROM job_later AS l WHERE l.tenant_id = $1 AND l.held))
       AND (lease_until > floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $8::bigint) IS TRUE
       AND (seq < $2::bigint) IS TRUE
       AND ($3::text IS NULL OR kind = $3)
       AND ($4::text IS NULL OR state = $4)
       AND ($5::text IS NULL OR work_id = $5)
       AND $6::boolean
)
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms
  FROM found
 ORDER BY seq DESC
 LIMIT $7::bigint;
