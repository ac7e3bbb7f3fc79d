-- The snapshots of an entity, newest first, from before the given number.
SELECT s.seq, s.id, s.entity_id, s.label, s.payload_hash, s.payload,
       ARRAY(SELECT a.profile FROM snapshot_alias AS a WHERE a.tenant_id = $1 AND a.snapshot_seq = s.seq ORDER BY a.nth),
       ARRAY(SELECT a.hash FROM snapshot_alias AS a WHERE a.tenant_id = $1 AND a.snapshot_seq = s.seq ORDER BY a.nth),
       s.created_at, s.seen_at, s.seen,
       s.seq = (SELECT e.current_seq
                  FROM entity AS e
                 WHERE e.tenant_id = $1 AND e.collection = s.collection AND e.entity_id = s.entity_id)
  FROM snapshot AS s
 WHERE s.tenant_id = $1::uuid AND s.collection = $2::text AND s.entity_id = $3::text
   AND s.seq > 0 AND s.seq < $4::bigint
 ORDER BY s.seq DESC
 LIMIT $5::bigint;
