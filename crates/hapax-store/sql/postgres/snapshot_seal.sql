-- Stores the payloads of snapshots sealed, each if nobody changed it meanwhile. What they say does not change. Returns those
-- written.
UPDATE snapshot AS s
   SET payload = n.payload
  FROM unnest($2::bigint[], $3::text[], $4::text[]) AS n (seq, payload, old_payload)
 WHERE s.tenant_id = $1::uuid AND s.seq = ANY($2::bigint[]) AND s.seq = n.seq AND s.payload = n.old_payload
RETURNING s.seq;
