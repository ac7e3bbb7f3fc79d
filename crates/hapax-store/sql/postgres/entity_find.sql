-- The entity with this id and its current snapshot.
WITH found AS MATERIALIZED (
    SELECT entity_id, label, snapshots, created_at, current_seq
      FROM entity
     WHERE tenant_id = $1::uuid AND collection = $2::text AND entity_id = $3::text
)
SELECT s.seq, s.id, s.entity_id, s.label, s.payload_hash, s.payload,
       ARRAY(SELECT a.profile FROM snapshot_alias AS a WHERE a.tenant_id = $1 AND a.snapshot_seq = s.seq ORDER BY a.nth),
       ARRAY(SELECT a.hash FROM snapshot_alias AS a WHERE a.tenant_id = $1 AND a.snapshot_seq = s.seq ORDER BY a.nth),
       s.created_at, s.seen_at, s.seen,
       true, f.label, f.snapshots, f.created_at
  FROM found AS f
  JOIN snapshot AS s ON s.seq = f.current_seq
 WHERE s.tenant_id = $1 AND s.seq = ANY(ARRAY(SELECT current_seq FROM found));
