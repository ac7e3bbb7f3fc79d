-- Locks what is ready of these kinds, by attempts and age, and passes by what somebody else is taking.
-- Which jobs come first is looked up kind by kind, with some to spare for those that are locked.
-- IS TRUE keeps the planner from the index on what is ready: the second look is by the ids alone.
WITH head AS MATERIALIZED (
    SELECT j.job_id
      FROM unnest($3::text[]) AS k (kind)
     CROSS JOIN LATERAL (
           SELECT job_id, attempts, seq
             FROM job
            WHERE standing = 'ready' AND tenant_id = $1::uuid AND place = $2::text AND kind = k.kind
              AND available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4::bigint
            ORDER BY attempts, seq
            LIMIT $5::bigint + 64
       ) AS j
     ORDER BY j.attempts, j.seq
     LIMIT $5 + 64
)
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at
  FROM job
 WHERE tenant_id = $1 AND job_id = ANY(ARRAY(SELECT job_id FROM head))
   AND (standing = 'ready' AND available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4) IS TRUE
 ORDER BY attempts, seq
 LIMIT $5
   FOR UPDATE SKIP LOCKED;
