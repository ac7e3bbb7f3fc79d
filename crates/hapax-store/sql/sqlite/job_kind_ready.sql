-- The next kind by name of which a tenant has ready jobs in this place.
SELECT kind
  FROM job
 WHERE standing = 'ready' AND tenant_id = ?1 AND place = ?2 AND kind > ?3
 ORDER BY kind
 LIMIT 1;
