-- The numbers of a work's jobs, newest first.
SELECT seq
  FROM job
 WHERE tenant_id = ?1 AND work_id = ?2 AND seq < ?3
   AND (?4 IS NULL OR kind = ?4)
   AND (?5 IS NULL OR state = ?5)
 ORDER BY seq DESC
 LIMIT ?6;
