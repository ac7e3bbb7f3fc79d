-- A page of what one tenant's audit trail says of one key, newest first, from before the given place.
SELECT id, at, action, actor, key_id, route_pattern, details
  FROM audit_log
 WHERE tenant_id = ?1 AND key_id = ?6 AND (at, id) < (?2, ?3)
   AND (?4 IS NULL OR action = ?4)
 ORDER BY at DESC, id DESC
 LIMIT ?5;
