-- Removes the policy of this name, if there is one. Returns its number.
DELETE FROM {schema}.idempotency_policies AS p WHERE p.tenant_id = $1::uuid AND p.policy_key = $2::text
RETURNING p.policy_id;
