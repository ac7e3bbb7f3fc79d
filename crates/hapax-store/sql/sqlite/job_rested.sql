-- Marks jobs ready whose rest is over, those that wait longest first, at most as many as asked.
UPDATE job
   SET standing = 'ready'
 WHERE seq IN (
    SELECT seq
      FROM job
     WHERE standing = 'resting' AND tenant_id = ?1 AND place = ?2 AND kind = ?3 AND available_at <= ?4
     ORDER BY available_at
     LIMIT ?5
 );
