-- The kind and the state of every job that somebody holds.
SELECT kind, state
  FROM job
 WHERE lease_until IS NOT NULL AND tenant_id = ?1 AND lease_until > ?2;
