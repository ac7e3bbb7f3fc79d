-- The numbers of the jobs that somebody holds, newest first.
SELECT seq
  FROM job
 WHERE lease_until IS NOT NULL AND tenant_id = ?1 AND seq < ?2 AND lease_until > ?3
   AND (?4 IS NULL OR kind = ?4)
   AND (?5 IS NULL OR state = ?5)
   AND (?6 IS NULL OR work_id = ?6)
 ORDER BY seq DESC
 LIMIT ?7;
