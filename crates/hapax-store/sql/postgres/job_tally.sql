-- How many jobs a tenant has, by kind and state, and how many of them somebody holds.
SELECT kind, state, count(*), count(*) FILTER (WHERE lease_until > floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint)
  FROM job
 WHERE tenant_id = $1::uuid AND seq > 0
 GROUP BY kind, state;
