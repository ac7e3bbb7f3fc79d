-- Removes the policy of this name, if there is one.
DELETE FROM {schema}_idempotency_policies WHERE tenant_id = ?1 AND policy_key = ?2;
