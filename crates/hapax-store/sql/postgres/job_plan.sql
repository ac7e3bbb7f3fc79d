-- Plans each job whose key is new, in the order given, due at once. Returns the keys that are new, with number and time.
-- What is visibly there is not tried at all. Fails if somebody else plans one of them at this moment.
WITH new AS (
    INSERT INTO job (
        tenant_id, job_id, job_key, kind, place, state, standing, epoch, attempts, failures, max_attempts, available_at,
        redone, retried, work_id, artifact_id, canonical_url, payload, created_at, updated_at, backoff_ms
    )
    SELECT $1::uuid, n.job_id, n.job_key, n.kind, n.place, 'PLANNED', 'ready', 0, 0, 0, n.max_attempts, t.now_ms,
           -1, -1, n.work_id, n.artifact_id, n.canonical_url, n.payload, t.now_ms, t.now_ms, n.backoff_ms
      FROM (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint) AS t (now_ms),
           unnest(
               $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[],
               $12::bigint[]
           ) WITH ORDINALITY AS n (
               job_id, job_key, kind, place, max_attempts, work_id, artifact_id, canonical_url, payload, backoff_ms, nth
           )
     WHERE NOT EXISTS (
               SELECT 1 FROM job AS j WHERE j.tenant_id = $1::uuid AND j.job_key = ANY($4::text[]) AND j.job_key = n.job_key
           )
     ORDER BY n.nth
    RETURNING job_key, kind, place, seq, created_at
), queued AS (
    INSERT INTO job_ready (tenant_id, place, kind, attempts, seq)
    SELECT $1, place, kind, 0, seq FROM new
), listed AS (
    INSERT INTO job_list (tenant_id, kind, state, seq)
    SELECT $1, kind, 'PLANNED', seq FROM new
)
SELECT job_key, seq, created_at FROM new;
