-- The first jobs of a kind that are ready, in the order of leasing.
SELECT attempts, seq
  FROM job
 WHERE standing = 'ready' AND tenant_id = ?1 AND place = ?2 AND kind = ?3
 ORDER BY attempts, seq
 LIMIT ?4;
