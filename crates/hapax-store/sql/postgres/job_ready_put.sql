-- Queues these jobs, which are ready.
INSERT INTO job_ready (tenant_id, place, kind, attempts, seq)
SELECT $1::uuid, n.place, n.kind, n.attempts, n.seq
  FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS n (place, kind, attempts, seq);
