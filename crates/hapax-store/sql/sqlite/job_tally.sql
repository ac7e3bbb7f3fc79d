-- How many jobs of one kind and state a tenant has, up to a number.
SELECT count(1)
  FROM (SELECT 1 FROM job WHERE tenant_id = ?1 AND kind = ?2 AND state = ?3 LIMIT ?4);
