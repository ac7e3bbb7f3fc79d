-- Has this asker ask these, except where somebody else does; which it asks then. In the order of their keys, so that two
-- who ask the same never wait for each other.
INSERT INTO llm_question AS q (tenant_id, request_key, asker, until)
SELECT $1::uuid, n.request_key, $3::uuid,
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2::bigint + $4::bigint
  FROM unnest($5::bytea[]) AS n (request_key)
    ON CONFLICT (request_key, tenant_id) DO UPDATE
   SET asker = excluded.asker, until = excluded.until
 WHERE q.asker = excluded.asker OR q.until <= excluded.until - $4
RETURNING q.request_key;
