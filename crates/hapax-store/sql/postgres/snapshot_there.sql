-- What a shelf keeps under these hashes, and the current snapshots of its entities.
SELECT s.id, s.entity_id, s.payload, s.payload_hash,
       (SELECT e.current_id
          FROM entity AS e
         WHERE e.tenant_id = $1 AND e.collection = s.collection AND e.entity_id = s.entity_id)
  FROM snapshot AS s
 WHERE s.tenant_id = $1::uuid AND s.collection = $2::text AND s.payload_hash = ANY($3::bytea[]);
