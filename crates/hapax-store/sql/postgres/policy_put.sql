-- Writes a policy as it is now, and tells its number.
INSERT INTO {schema}.idempotency_policies AS p (
    tenant_id, policy_key, source, content_type, conflict_action, update_fields, secondary_match, enabled
)
VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text[], $7::text, $8::boolean)
    ON CONFLICT (tenant_id, policy_key) DO UPDATE
   SET source = excluded.source, content_type = excluded.content_type, conflict_action = excluded.conflict_action,
       update_fields = excluded.update_fields, secondary_match = excluded.secondary_match, enabled = excluded.enabled
RETURNING p.policy_id;
