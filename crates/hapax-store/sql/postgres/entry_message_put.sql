-- Remembers that these entries have merged these messages.
INSERT INTO {schema}.entry_messages (tenant_id, entry_id, message)
SELECT $1::uuid, n.entry_id, n.message
  FROM unnest($2::bigint[], $3::bytea[]) AS n (entry_id, message)
ON CONFLICT DO NOTHING;
