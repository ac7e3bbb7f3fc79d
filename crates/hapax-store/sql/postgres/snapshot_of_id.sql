-- What a tenant keeps under these ids whose hash is another or missing, and the current snapshots of its entities.
SELECT s.id, s.entity_id, CASE WHEN s.payload_hash IS NULL AND s.collection = $2::text THEN s.payload END,
       (SELECT e.current_id
          FROM entity AS e
         WHERE e.tenant_id = $1 AND e.collection = s.collection AND e.entity_id = s.entity_id)
  FROM snapshot AS s
  JOIN unnest($3::uuid[], $4::bytea[]) AS n (id, payload_hash) ON n.id = s.id
 WHERE s.tenant_id = $1::uuid AND s.id = ANY($3::uuid[])
   AND (s.collection <> $2 OR s.payload_hash IS DISTINCT FROM n.payload_hash);
