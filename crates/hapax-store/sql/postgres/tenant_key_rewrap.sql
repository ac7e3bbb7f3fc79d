-- Puts keys under another master key, or says that everything of their tenant is sealed, each if nobody changed or deleted it
-- first. Returns those changed.
UPDATE tenant_key AS k
   SET kek_id = $5::text, wrapped = n.wrapped
  FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bytea[], $6::bytea[])
       AS n (tenant_id, number, key_id, before, wrapped)
 WHERE k.tenant_id = n.tenant_id AND k.number = n.number AND k.key_id = n.key_id AND k.wrapped = n.before
RETURNING k.key_id;
