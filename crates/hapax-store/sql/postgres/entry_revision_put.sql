-- Keeps these replaced states.
INSERT INTO {schema}.entry_revisions (tenant_id, entry_id, revision, "row", replaced_at)
SELECT $1::uuid, n.entry_id, n.revision, n.state::jsonb, $2::timestamptz
  FROM unnest($3::bigint[], $4::bigint[], $5::text[]) AS n (entry_id, revision, state);
