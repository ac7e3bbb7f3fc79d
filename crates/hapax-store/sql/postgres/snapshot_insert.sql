-- Writes new snapshots, numbered in the order given. Their hashes and their ids must be new.
INSERT INTO snapshot (
    tenant_id, collection, id, entity_id, label, payload_hash, hash_state, payload, created_at, seen_at, seen
)
SELECT $1::uuid, $2::text, n.id, n.entity_id, n.label, n.payload_hash, 'there', n.payload, t.now_ms, t.now_ms, n.seen
  FROM (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $3::bigint) AS t (now_ms),
       unnest(
           $4::uuid[], $5::text[], $6::text[], $7::bytea[], $8::text[], $9::bigint[]
       ) WITH ORDINALITY AS n (id, entity_id, label, payload_hash, payload, seen, nth)
 ORDER BY n.nth;
