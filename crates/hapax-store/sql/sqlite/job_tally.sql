-- How many jobs a tenant has, by kind and state.
SELECT kind, state, count(1)
  FROM job
 WHERE tenant_id = ?1
 GROUP BY kind, state;
