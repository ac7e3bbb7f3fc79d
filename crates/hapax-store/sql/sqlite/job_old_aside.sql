-- Moves an older program's jobs aside, so that their name is free.
ALTER TABLE artifact_jobs RENAME TO artifact_jobs_before;
