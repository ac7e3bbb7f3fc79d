-- Moves an older program's operations aside, so that their name is free.
ALTER TABLE artifact_ops RENAME TO artifact_ops_before;
