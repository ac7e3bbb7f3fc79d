-- Adds one note to a tenant's audit trail.
INSERT INTO audit_log (tenant_id, at, action, actor, key_id, route_pattern, details)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
