-- Writes these operations as they are now. Their jobs are locked; key, job and kind never change.
UPDATE op AS o
   SET state = n.state, class = n.class, epoch = n.epoch, token = n.token, tries = n.tries,
       started_at = n.started_at, finished_at = n.finished_at, result = n.result, error = n.error
  FROM unnest(
           $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[],
           $10::bigint[], $11::bigint[], $12::text[], $13::text[]
       ) AS n (op_key, job_id, kind, state, class, epoch, token, tries, started_at, finished_at, result, error)
 WHERE o.tenant_id = $1::uuid AND o.op_key = ANY($2::text[]) AND o.op_key = n.op_key AND o.job_id = n.job_id;
