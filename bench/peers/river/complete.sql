-- Ends jobs that are still running, many at once.
WITH ended AS (
    SELECT unnest($1::bigint[]) AS id, unnest($2::timestamptz[]) AS finalized_at
), locked AS (
    SELECT j.id, ended.finalized_at
      FROM river_job AS j
      JOIN ended ON ended.id = j.id
     WHERE j.state = 'running'
       FOR UPDATE OF j
)
UPDATE river_job AS j
   SET state = 'completed', finalized_at = locked.finalized_at
  FROM locked
 WHERE j.id = locked.id
RETURNING j.id;
