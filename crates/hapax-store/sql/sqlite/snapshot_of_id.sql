-- What a tenant keeps under this id, whatever its hash, and the current snapshot of its entity.
SELECT snapshot.seq, snapshot.id, snapshot.collection, snapshot.hash_state,
       (SELECT payload FROM snapshot_payload AS apart WHERE apart.snapshot_seq = snapshot.seq),
       (SELECT entity.current_id
          FROM entity
         WHERE entity.tenant_id = snapshot.tenant_id AND entity.collection = snapshot.collection
           AND entity.entity_id = snapshot.entity_id)
  FROM snapshot
 WHERE snapshot.tenant_id = ?1 AND snapshot.id = ?2;
