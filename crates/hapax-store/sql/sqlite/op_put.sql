-- Writes an operation, new or changed. Its job and its kind never change.
INSERT INTO op (
    tenant_id, op_key, job_seq, kind, state, class, epoch, token, tries, started_at, finished_at, result, error
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (tenant_id, op_key) DO UPDATE
   SET state = excluded.state, class = excluded.class, epoch = excluded.epoch, token = excluded.token,
       tries = excluded.tries, started_at = excluded.started_at, finished_at = excluded.finished_at,
       result = excluded.result, error = excluded.error;
