-- Locks what is ready of these kinds, by attempts and age, and passes by what somebody else is taking.
-- Which jobs come first is looked up kind by kind, with some to spare for those that are locked.
WITH head AS MATERIALIZED (
    SELECT r.seq
      FROM unnest($3::text[]) AS k (kind)
     CROSS JOIN LATERAL (
           SELECT attempts, seq
             FROM job_ready
            WHERE tenant_id = $1::uuid AND place = $2::text AND kind = k.kind
            ORDER BY attempts, seq
            LIMIT $5::bigint + 64
       ) AS r
     ORDER BY r.attempts, r.seq
     LIMIT $5 + 64
)
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms,
       standing, later, listed
  FROM job
 WHERE tenant_id = $1 AND job_id <> '' AND seq = ANY(ARRAY(SELECT seq FROM head))
   AND (standing = 'ready' AND available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4::bigint) IS TRUE
 ORDER BY attempts, seq
 LIMIT $5
   FOR UPDATE SKIP LOCKED;
