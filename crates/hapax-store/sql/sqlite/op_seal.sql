-- Stores the texts of an operation sealed. What they say does not change.
UPDATE op SET result = ?3, error = ?4 WHERE tenant_id = ?1 AND op_key = ?2;
