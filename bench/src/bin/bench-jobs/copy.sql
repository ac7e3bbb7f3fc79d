-- The columns that planning fills.
COPY job (
    tenant_id, job_id, job_key, kind, place, state, standing, epoch, attempts, failures, max_attempts, available_at,
    redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at
) FROM STDIN
