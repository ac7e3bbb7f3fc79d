-- Marks jobs of these kinds whose rest or lease is over as ready, about a given number of each kind. What of a row of
-- job_later is not ready yet, or is somebody else's at this moment, is looked at again when its time has come.
WITH picked AS MATERIALIZED (
    SELECT l.number
      FROM unnest($3::text[]) AS k (kind)
     CROSS JOIN LATERAL (
           SELECT number, sum(waiting) OVER (ORDER BY at ROWS UNBOUNDED PRECEDING) - waiting AS before
             FROM (SELECT number, at, waiting
                     FROM job_later
                    WHERE tenant_id = $1::uuid AND place = $2::text AND kind = k.kind
                      AND at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4::bigint
                    ORDER BY at
                    LIMIT $5::bigint) AS due
       ) AS l
     WHERE l.before < $5
), due AS MATERIALIZED (
    SELECT number, jobs
      FROM job_later
     WHERE tenant_id = $1 AND number = ANY(ARRAY(SELECT number FROM picked))
       AND (at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4) IS TRUE
       FOR UPDATE SKIP LOCKED
), member AS MATERIALIZED (
    SELECT later AS number, seq, standing, available_at
      FROM job
     WHERE tenant_id = $1 AND job_id <> '' AND seq = ANY(ARRAY(SELECT unnest(jobs) FROM due))
       AND (later = ANY(ARRAY(SELECT number FROM due))) IS TRUE
), rested AS MATERIALIZED (
    SELECT seq
      FROM job
     WHERE tenant_id = $1 AND job_id <> ''
       AND seq = ANY(ARRAY(SELECT seq FROM member
                            WHERE standing = 'resting'
                              AND available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4))
       AND (standing = 'resting' AND available_at <= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $4) IS TRUE
       FOR UPDATE SKIP LOCKED
), woken AS (
    UPDATE job
       SET standing = 'ready', later = CASE WHEN lease_until IS NOT NULL THEN later END
     WHERE tenant_id = $1 AND job_id <> '' AND seq = ANY(ARRAY(SELECT seq FROM rested))
    RETURNING seq, place, kind, attempts, later
), queued AS (
    INSERT INTO job_ready (tenant_id, place, kind, attempts, seq)
    SELECT $1, place, kind, attempts, seq FROM woken
), kept AS MATERIALIZED (
    SELECT m.number, min(m.at) AS at, count(1) AS waiting
      FROM (
            SELECT number, available_at AS at
              FROM member
             WHERE standing = 'resting' AND seq <> ALL(ARRAY(SELECT seq FROM woken))
             UNION ALL
            SELECT number, NULL FROM member WHERE standing = 'ready'
             UNION ALL
            SELECT later, NULL FROM woken WHERE later IS NOT NULL
           ) AS m
     GROUP BY m.number
), emptied AS (
    DELETE FROM job_later
     WHERE tenant_id = $1 AND number = ANY(ARRAY(SELECT number FROM due)) AND number <> ALL(ARRAY(SELECT number FROM kept))
)
UPDATE job_later AS l
   SET at = k.at, waiting = k.waiting
  FROM kept AS k
 WHERE l.tenant_id = $1 AND l.number = ANY(ARRAY(SELECT number FROM kept)) AND l.number = k.number;
