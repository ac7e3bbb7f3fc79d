-- The payloads of a tenant's snapshots, by their numbers after the given one, at most so many.
SELECT s.seq, s.id, p.payload
  FROM snapshot AS s
  JOIN snapshot_payload AS p ON p.snapshot_seq = s.seq
 WHERE s.tenant_id = ?1 AND s.seq > ?2
 ORDER BY s.seq
 LIMIT ?3;
