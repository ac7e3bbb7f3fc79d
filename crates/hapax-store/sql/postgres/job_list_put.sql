-- Lists these jobs under their states.
INSERT INTO job_list (tenant_id, kind, state, seq)
SELECT $1::uuid, n.kind, n.state, n.seq
  FROM unnest($2::text[], $3::text[], $4::bigint[]) AS n (kind, state, seq);
