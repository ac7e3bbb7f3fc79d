-- Keeps the operations that belong to no job, as they were.
CREATE TABLE artifact_ops_orphaned AS
SELECT op_key, job_id, op_type, started_at, finished_at, result_code, result_json
  FROM artifact_ops_before
 WHERE job_id NOT IN (SELECT job_id FROM artifact_jobs_before);
