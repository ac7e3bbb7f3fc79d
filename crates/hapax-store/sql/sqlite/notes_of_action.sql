-- A page of one tenant's audit trail of one kind of thing, newest first, from before the given place.
SELECT id, at, action, actor, key_id, route_pattern, details
  FROM audit_log
 WHERE tenant_id = ?1 AND action = ?4 AND (at, id) < (?2, ?3)
 ORDER BY at DESC, id DESC
 LIMIT ?5;
