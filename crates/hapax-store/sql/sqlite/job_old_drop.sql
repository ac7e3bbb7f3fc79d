-- Drops an older program's jobs after every row was copied.
DROP TABLE artifact_jobs_before;
