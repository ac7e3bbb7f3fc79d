-- Extends each lease if nobody moved the record first. Returns the ids written.
UPDATE idempotency_keys AS k
   SET version = n.version, lease_until = n.lease_until
  FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::timestamptz[]) AS n (id, expected, version, lease_until)
 WHERE k.tenant_id = $1::uuid AND k.id = ANY($2::uuid[]) AND k.id = n.id AND k.version = n.expected
RETURNING k.id;
