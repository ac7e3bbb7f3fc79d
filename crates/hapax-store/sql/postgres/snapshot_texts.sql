-- The payloads of a tenant's snapshots, by their numbers after the given one, at most so many.
SELECT seq, id, payload
  FROM snapshot
 WHERE tenant_id = $1::uuid AND seq > $2::bigint
 ORDER BY seq
 LIMIT $3::bigint;
