-- The operations of one tenant with these keys.
SELECT tenant_id, op_key, job_id, kind, state, class, epoch, token, tries, started_at, finished_at, result, error
  FROM op
 WHERE tenant_id = $1::uuid AND op_key = ANY($2::text[]);
