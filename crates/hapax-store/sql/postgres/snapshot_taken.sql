-- Which of these hashes a shelf keeps.
SELECT payload_hash
  FROM snapshot
 WHERE tenant_id = $1::uuid AND collection = $2::text AND payload_hash = ANY($3::bytea[]);
