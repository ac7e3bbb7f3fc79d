-- Keeps a state of an entry that is being replaced.
INSERT INTO {schema}_entry_revisions (tenant_id, entry_id, revision, row, replaced_at)
VALUES (?1, ?2, ?3, ?4, ?5);
