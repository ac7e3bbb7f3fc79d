-- A page of one tenant's jobs of one kind or of all, in these states, newest first, from before the given place. Each kind
-- and state is a list of its own in the index; no more than a page is read of any.
WITH RECURSIVE kinds (kind) AS (
    SELECT coalesce($3::text COLLATE "C", (
               SELECT kind FROM job WHERE tenant_id = $1::uuid AND seq > 0 ORDER BY kind LIMIT 1
           ))
     UNION ALL
    SELECT n.kind
      FROM kinds AS k
     CROSS JOIN LATERAL (
           SELECT kind FROM job
            WHERE $3 IS NULL AND tenant_id = $1 AND seq > 0 AND kind > k.kind
            ORDER BY kind LIMIT 1
       ) AS n
)
SELECT j.tenant_id, j.seq, j.job_id, j.job_key, j.kind, j.place, j.state, j.lease_owner, j.lease_until, j.epoch, j.attempts, j.failures,
       j.max_attempts, j.available_at, j.redone, j.retried, j.work_id, j.artifact_id, j.canonical_url, j.payload, j.result, j.error,
       j.created_at, j.updated_at
  FROM kinds AS k
 CROSS JOIN unnest($4::text[]) AS s (state)
 CROSS JOIN LATERAL (
       SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
              available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at
         FROM job
        WHERE tenant_id = $1 AND kind = k.kind AND state = s.state AND seq > 0 AND seq < $2::bigint
        ORDER BY seq DESC
        LIMIT $5::bigint
   ) AS j
 ORDER BY j.seq DESC
 LIMIT $5;
