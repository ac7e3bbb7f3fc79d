-- The texts of a tenant's operations, by their keys after the given one, at most so many.
SELECT op_key, result, error
  FROM op
 WHERE tenant_id = ?1 AND op_key > ?2
 ORDER BY op_key
 LIMIT ?3;
