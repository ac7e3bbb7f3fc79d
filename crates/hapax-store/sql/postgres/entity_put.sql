-- Makes new snapshots the current ones of their entities, and counts them. The entities are locked, so none is newer.
INSERT INTO entity AS e (tenant_id, collection, entity_id, label, current_seq, current_id, snapshots, created_at)
SELECT $1::uuid, $2::text, n.entity_id, n.label, s.seq, s.id, n.snapshots, s.created_at
  FROM unnest($3::text[], $4::text[], $5::uuid[], $6::bigint[]) AS n (entity_id, label, current_id, snapshots)
  JOIN snapshot AS s ON s.id = n.current_id
 WHERE s.tenant_id = $1 AND s.id = ANY($5)
    ON CONFLICT (entity_id, collection, tenant_id) DO UPDATE
   SET label = excluded.label, current_seq = excluded.current_seq, current_id = excluded.current_id,
       snapshots = e.snapshots + excluded.snapshots;
