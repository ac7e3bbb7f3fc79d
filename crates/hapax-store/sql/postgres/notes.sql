-- A page of one tenant's audit trail, newest first, from before the given place.
SELECT id, at, action, actor, key_id, route_pattern, details::text
  FROM audit_note
 WHERE tenant_id = $1::uuid
   AND (at, id) < ($2::timestamptz, $3::bigint)
   AND ($4::text IS NULL OR action = $4)
 ORDER BY at DESC, id DESC
 LIMIT $5::bigint;
