-- Puts keys under another master key, each if nobody did or deleted it first. Returns those changed.
UPDATE tenant_key AS k
   SET kek_id = $5::text, wrapped = n.wrapped
  FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $6::bytea[])
       AS n (tenant_id, number, key_id, kek_id, wrapped)
 WHERE k.tenant_id = n.tenant_id AND k.number = n.number AND k.key_id = n.key_id AND k.kek_id = n.kek_id
RETURNING k.key_id;
