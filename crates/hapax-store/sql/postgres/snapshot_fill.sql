-- Fills in the hashes of snapshots that have none, or says why they get none.
UPDATE snapshot AS s
   SET payload_hash = n.payload_hash, hash_state = n.hash_state
  FROM unnest($2::uuid[], $3::bytea[], $4::text[]) AS n (id, payload_hash, hash_state)
 WHERE s.tenant_id = $1::uuid AND s.id = ANY($2) AND s.id = n.id AND s.payload_hash IS NULL;
