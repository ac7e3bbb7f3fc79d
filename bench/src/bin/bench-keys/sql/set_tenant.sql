-- Whose rows this transaction may see.
SELECT set_config('hapax.tenant', $1::uuid::text, true);
