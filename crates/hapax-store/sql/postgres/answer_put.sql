-- Keeps these answers, except where there is one. In the order of their keys, so that two who keep the same never wait
-- for each other.
INSERT INTO llm_answer (tenant_id, request_key, raw, created_at)
SELECT $1::uuid, n.request_key, n.raw,
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2::bigint
  FROM unnest($3::bytea[], $4::text[]) AS n (request_key, raw)
    ON CONFLICT (request_key, tenant_id) DO NOTHING;
