-- The snapshot with this id, if it is on this tenant's shelf.
SELECT snapshot.seq, snapshot.id, snapshot.entity_id, snapshot.label, snapshot.payload_hash,
       (SELECT payload FROM snapshot_payload AS apart WHERE apart.snapshot_seq = snapshot.seq),
       snapshot.created_at, snapshot.seen_at, snapshot.seen,
       snapshot.seq = (SELECT entity.current_seq
                         FROM entity
                        WHERE entity.tenant_id = snapshot.tenant_id AND entity.collection = snapshot.collection
                          AND entity.entity_id = snapshot.entity_id)
  FROM snapshot
 WHERE snapshot.tenant_id = ?1 AND snapshot.id = ?3 AND snapshot.collection = ?2;
