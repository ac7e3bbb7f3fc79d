-- Removes the oldest notes from before the given time, at most $2. Returns how many.
WITH old AS (
    SELECT id, at FROM audit_log WHERE at <= $1::timestamptz ORDER BY at, id LIMIT $2::bigint
), gone AS (
    DELETE FROM audit_log AS a
     WHERE a.at <= (SELECT max(at) FROM old) AND a.id = ANY(ARRAY(SELECT id FROM old))
    RETURNING a.id
)
SELECT count(*) FROM gone;
