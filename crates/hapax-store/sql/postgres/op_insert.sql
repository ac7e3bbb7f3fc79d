-- Adds these operations, in the order given. Fails if a key is taken: somebody else began it at this moment.
INSERT INTO op (
    tenant_id, op_key, job_id, kind, state, class, epoch, token, tries, started_at, finished_at, result, error
)
SELECT $1::uuid, n.op_key, n.job_id, n.kind, n.state, n.class, n.epoch, n.token, n.tries, n.started_at, n.finished_at,
       n.result, n.error
  FROM unnest(
           $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[],
           $10::bigint[], $11::bigint[], $12::text[], $13::text[]
       ) WITH ORDINALITY AS n (
           op_key, job_id, kind, state, class, epoch, token, tries, started_at, finished_at, result, error, nth
       )
 ORDER BY n.nth;
