-- A page of one tenant's jobs of one kind or of all, in these states, newest first, from before the given place. Each kind
-- and state is a list of its own; no more than a page is read of any, past jobs that were leased meanwhile. Those are all held.
WITH RECURSIVE kinds (kind) AS (
    SELECT coalesce($3::text COLLATE "C", (SELECT kind FROM job_list WHERE tenant_id = $1::uuid ORDER BY kind LIMIT 1))
     UNION ALL
    SELECT n.kind
      FROM kinds AS k
     CROSS JOIN LATERAL (
           SELECT kind FROM job_list WHERE $3 IS NULL AND tenant_id = $1 AND kind > k.kind ORDER BY kind LIMIT 1
       ) AS n
), listed AS MATERIALIZED (
    SELECT l.seq
      FROM kinds AS k
     CROSS JOIN unnest($4::text[]) AS s (state)
     CROSS JOIN LATERAL (
           SELECT o.seq
             FROM job_list AS o
            CROSS JOIN LATERAL (
                  SELECT 1 FROM job AS j WHERE j.tenant_id = $1 AND j.job_id <> '' AND j.seq = o.seq AND j.listed IS NULL LIMIT 1
              ) AS exact
            WHERE o.tenant_id = $1 AND o.kind = k.kind AND o.state = s.state AND o.seq < $2::bigint
            ORDER BY o.seq DESC
            LIMIT $5::bigint
       ) AS l
), leased AS MATERIALIZED (
    SELECT seq
      FROM job
     WHERE tenant_id = $1 AND job_id <> ''
       AND seq = ANY(ARRAY(
               SELECT unnest(l.jobs) FROM job_later AS l WHERE 'LEASED' = ANY($4) AND l.tenant_id = $1 AND l.held
           ))
       AND (seq < $2 AND listed IS NOT NULL AND state = ANY($4)) IS TRUE
       AND ($3 IS NULL OR kind = $3)
), page AS MATERIALIZED (
    SELECT seq FROM listed UNION SELECT seq FROM leased
), found AS MATERIALIZED (
    SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
           available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms
      FROM job
     WHERE tenant_id = $1 AND job_id <> '' AND seq = ANY(ARRAY(SELECT seq FROM page ORDER BY seq DESC LIMIT $5))
)
SELECT tenant_id, seq, job_id, job_key, kind, place, state, lease_owner, lease_until, epoch, attempts, failures, max_attempts,
       available_at, redone, retried, work_id, artifact_id, canonical_url, payload, result, error, created_at, updated_at, backoff_ms
  FROM found
 ORDER BY seq DESC;
