-- How many operations of an older program belong to no job.
SELECT count(1) FROM artifact_ops_before
 WHERE job_id NOT IN (SELECT job_id FROM artifact_jobs_before);
