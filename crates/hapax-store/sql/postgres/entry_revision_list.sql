-- The replaced states of an entry, newest first, from before the given revision.
SELECT r."row"::text
  FROM {schema}.entry_revisions AS r
 WHERE r.tenant_id = $1::uuid AND r.entry_id = $2::bigint AND r.revision < $3::bigint
 ORDER BY r.revision DESC
 LIMIT $4::bigint;
