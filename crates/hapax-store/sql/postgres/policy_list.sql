-- A tenant's policies, by name.
SELECT p.policy_id, p.policy_key, p.source, p.content_type, p.conflict_action, p.update_fields, p.secondary_match, p.enabled
  FROM {schema}.idempotency_policies AS p
 WHERE p.tenant_id = $1::uuid
 ORDER BY p.policy_key;
