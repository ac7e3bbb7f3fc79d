-- Removes the oldest notes from before the given time, at most $2. Returns how many.
WITH old AS (
    SELECT tenant_id, id, at FROM audit_note WHERE at <= $1::timestamptz ORDER BY at, id LIMIT $2::bigint
), gone AS (
    DELETE FROM audit_note AS a
     USING old AS o
     WHERE a.at <= (SELECT max(at) FROM old) AND a.tenant_id = o.tenant_id AND a.at = o.at AND a.id = o.id
    RETURNING a.id
)
SELECT count(*) FROM gone;
