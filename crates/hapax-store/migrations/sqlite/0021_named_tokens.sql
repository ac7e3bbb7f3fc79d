-- What people call a token, so that the audit trail says more than its id.
ALTER TABLE token ADD COLUMN name TEXT CHECK (length(name) BETWEEN 1 AND 100);
