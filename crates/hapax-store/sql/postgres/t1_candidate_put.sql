-- Makes these entries candidates of an import, in the order given. None of them is one yet.
INSERT INTO {schema}.t1_batch_items (tenant_id, import_id, entry_id, status, created_at, updated_at)
SELECT $1::uuid, $2::uuid, n.entry_id, 'candidate', $3::timestamptz, $3
  FROM unnest($4::bigint[]) WITH ORDINALITY AS n (entry_id, nth)
 ORDER BY n.nth;
