-- The policies of this tenant, by name.
SELECT policy_id, policy_key, source, content_type, conflict_action, update_fields, secondary_match, enabled
  FROM {schema}_idempotency_policies
 WHERE tenant_id = ?1
 ORDER BY policy_key;
