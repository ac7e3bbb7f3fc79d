-- Locks those of these snapshots that still miss their hash, oldest first, and gives their payloads.
SELECT id, payload
  FROM snapshot
 WHERE tenant_id = $1::uuid AND collection = $2::text AND id = ANY($3::uuid[]) AND hash_state = 'missing'
 ORDER BY seq
   FOR UPDATE;
