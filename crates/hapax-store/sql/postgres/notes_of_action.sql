-- A page of one tenant's audit trail of one kind of thing, newest first, from before the given place.
SELECT id, at, action, actor, key_id, route_pattern, details::text
  FROM audit_note
 WHERE tenant_id = $1::uuid
   AND (at, id) < ($2::timestamptz, $3::bigint)
   AND action = $4::text
 ORDER BY at DESC, id DESC
 LIMIT $5::bigint;
