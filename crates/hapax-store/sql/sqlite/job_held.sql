-- The kind and the state of the jobs that somebody holds, up to a number of them.
SELECT kind, state
  FROM job
 WHERE lease_until IS NOT NULL AND tenant_id = ?1 AND lease_until > ?2
 LIMIT ?3;
