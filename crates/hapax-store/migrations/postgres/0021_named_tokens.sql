-- What people call a token, so that the audit trail says more than its id.
ALTER TABLE token ADD COLUMN name text CHECK (length(name) BETWEEN 1 AND 100);

-- A policy that was added can be removed again, within its tenant.
GRANT DELETE ON pkm.idempotency_policies TO hapax_app;
GRANT DELETE ON pkm_test.idempotency_policies TO hapax_app;
