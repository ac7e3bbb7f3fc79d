-- Adds these notes to one tenant's audit trail.
INSERT INTO audit_note (tenant_id, at, action, actor, key_id, route_pattern, details)
SELECT $1::uuid, n.at, n.action, n.actor, n.key_id, n.route_pattern, n.details::jsonb
  FROM unnest($2::timestamptz[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::text[])
       AS n (at, action, actor, key_id, route_pattern, details);
