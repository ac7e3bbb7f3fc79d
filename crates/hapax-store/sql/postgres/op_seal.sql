-- Stores the texts of operations sealed, each if nobody changed them meanwhile. What they say does not change. Returns those
-- written.
UPDATE op AS o
   SET result = n.result, error = n.error
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
       AS n (op_key, result, error, old_result, old_error)
 WHERE o.tenant_id = $1::uuid AND o.op_key = ANY($2::text[]) AND o.op_key = n.op_key
   AND o.result IS NOT DISTINCT FROM n.old_result AND o.error IS NOT DISTINCT FROM n.old_error
RETURNING o.op_key;
