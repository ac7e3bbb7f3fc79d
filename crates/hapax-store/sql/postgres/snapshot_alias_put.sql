-- Stores what older programs call the texts of these snapshots.
INSERT INTO snapshot_alias (tenant_id, snapshot_seq, nth, collection, profile, hash)
SELECT $1::uuid, s.seq, n.nth, s.collection, n.profile, n.hash
  FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[]) AS n (id, nth, profile, hash)
  JOIN snapshot AS s ON s.id = n.id
 WHERE s.tenant_id = $1 AND s.id = ANY($2)
    ON CONFLICT DO NOTHING;
