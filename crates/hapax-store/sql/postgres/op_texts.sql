-- The texts of a tenant's operations, by their keys after the given one, at most so many.
SELECT op_key, result, error
  FROM op
 WHERE tenant_id = $1::uuid AND op_key > $2::text
 ORDER BY op_key
 LIMIT $3::bigint;
