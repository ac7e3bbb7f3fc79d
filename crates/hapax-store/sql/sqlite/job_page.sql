-- The numbers of a tenant's jobs of one kind and state, newest first.
SELECT seq
  FROM job
 WHERE tenant_id = ?1 AND kind = ?2 AND state = ?3 AND seq < ?4
 ORDER BY seq DESC
 LIMIT ?5;
