-- Which of these entries have merged which of these messages. Each is looked up by itself: a join would walk the table.
SELECT n.entry_id, n.message
  FROM unnest($2::bigint[], $3::bytea[]) AS n (entry_id, message)
 WHERE (SELECT m.entry_id
          FROM {schema}.entry_messages AS m
         WHERE m.entry_id = n.entry_id AND m.message = n.message AND m.tenant_id = $1::uuid
         LIMIT 1) IS NOT NULL;
