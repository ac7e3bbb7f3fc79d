-- Batches of all tenants that did not end and whose time has come, those that waited longest first.
SELECT b.next_at, b.tenant_id, b.batch_id, b.status, b.attempt
  FROM {schema}.t1_batches AS b
 WHERE b.status IN ('queued', 'submitted', 'collecting')
   AND b.next_at <= statement_timestamp() + $1::bigint * interval '1 millisecond'
 ORDER BY b.next_at, b.batch_seq
 LIMIT $2::bigint;
