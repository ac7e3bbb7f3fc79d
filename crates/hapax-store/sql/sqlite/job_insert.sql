-- Writes a new job and gives it its number. Its key must be new.
INSERT INTO job (
    tenant_id, job_id, job_key, kind, place, state, standing, lease_owner, lease_until, epoch, attempts, failures,
    max_attempts, available_at, redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at,
    backoff_ms
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
    ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    ?22
);
