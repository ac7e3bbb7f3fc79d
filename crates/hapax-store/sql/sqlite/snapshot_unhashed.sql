-- The next snapshots of all tenants that miss their hash.
SELECT seq, tenant_id, collection, id,
       (SELECT payload FROM snapshot_payload AS apart WHERE apart.snapshot_seq = snapshot.seq)
  FROM snapshot
 WHERE hash_state = 'missing'
 ORDER BY seq
 LIMIT ?1;
