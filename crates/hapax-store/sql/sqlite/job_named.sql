-- The jobs that a name may stand for: the one with this id, the one with this key, and those whose id begins as a UUID does.
SELECT job_id, job_key FROM job WHERE tenant_id = ?1 AND job_id = ?2
 UNION ALL
SELECT job_id, job_key FROM job WHERE tenant_id = ?1 AND job_key = ?2
 UNION ALL
SELECT job_id, job_key FROM job WHERE tenant_id = ?1 AND job_id >= ?3 AND job_id < ?4
 LIMIT 16;
