-- Takes jobs that are available, first by priority and time, past those that another client is taking.
WITH locked AS (
    SELECT id
      FROM river_job
     WHERE state = 'available' AND queue = 'default' AND scheduled_at <= now()
     ORDER BY priority, scheduled_at, id
     LIMIT $1::bigint
       FOR UPDATE SKIP LOCKED
)
UPDATE river_job AS j
   SET state = 'running', attempt = j.attempt + 1, attempted_at = now(),
       attempted_by = array_append(j.attempted_by, $2::text)
  FROM locked
 WHERE j.id = locked.id
RETURNING j.id, j.args::text, j.attempt, j.attempted_at, j.created_at, j.kind, j.max_attempts, j.metadata::text, j.priority,
          j.queue, j.scheduled_at, j.unique_key;
