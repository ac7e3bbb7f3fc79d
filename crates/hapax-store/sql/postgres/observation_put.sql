-- Writes who saw these snapshots, which are counted already, in the places of the oldest if there is no room left.
INSERT INTO observation (tenant_id, snapshot_seq, place, nth, at, seen_by, key_match)
SELECT $1::uuid, s.seq, (s.seen - n.back) % $2::bigint, s.seen - n.back, s.seen_at, n.seen_by, n.key_match
  FROM unnest($3::uuid[], $4::bigint[], $5::text[], $6::text[]) AS n (id, back, seen_by, key_match)
  JOIN snapshot AS s ON s.id = n.id
 WHERE s.tenant_id = $1 AND s.id = ANY($3)
    ON CONFLICT (snapshot_seq, tenant_id, place) DO UPDATE
   SET nth = excluded.nth, at = excluded.at, seen_by = excluded.seen_by, key_match = excluded.key_match;
