-- Twenty thousand jobs each that wait under another kind, rest, are held, wait for somebody, or have ended.
WITH RECURSIVE
    number (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM number WHERE n < 99999),
    one (n, kind, state, standing, owner, until, available_at) AS (
        SELECT n,
               CASE n % 5 WHEN 0 THEN 'other' ELSE 'download' END,
               CASE n % 5 WHEN 0 THEN 'PLANNED' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'LEASED' WHEN 3 THEN 'LEASED' ELSE 'INDEXED' END,
               CASE n % 5 WHEN 0 THEN 'ready' WHEN 4 THEN 'off' ELSE 'resting' END,
               CASE n % 5 WHEN 2 THEN 'worker' END,
               CASE n % 5 WHEN 2 THEN 2000000 END,
               CASE n % 5 WHEN 1 THEN 2000000 WHEN 2 THEN 2000000 WHEN 3 THEN 9223372036854775807 ELSE 0 END
          FROM number
    )
INSERT INTO job (
    tenant_id, job_id, job_key, kind, place, state, standing, lease_owner, lease_until, epoch, attempts, failures,
    max_attempts, available_at, redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at
)
SELECT x'07070707070707070707070707070707', n, n, kind, '', state, standing, owner, until, 1, 1, 0,
       5, available_at, -1, -1, 'w', n, 'u', 0, 0
  FROM one;
