-- Writes a policy, over the one of its name if there is one. Returns its number.
INSERT INTO {schema}_idempotency_policies (
    tenant_id, policy_key, source, content_type, conflict_action, update_fields, secondary_match, enabled
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (tenant_id, policy_key) DO UPDATE
   SET source = excluded.source, content_type = excluded.content_type, conflict_action = excluded.conflict_action,
       update_fields = excluded.update_fields, secondary_match = excluded.secondary_match, enabled = excluded.enabled
RETURNING policy_id;
