-- How many operations of a tenant are in doubt, up to a number.
SELECT count(*)
  FROM (SELECT 1 FROM op WHERE tenant_id = $1::uuid AND state = 'in_doubt' LIMIT $2::bigint) AS doubtful;
