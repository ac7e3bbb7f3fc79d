-- Removes the oldest notes from before the given time, at most so many.
DELETE FROM audit_log
 WHERE id IN (SELECT id FROM audit_log WHERE at <= ?1 ORDER BY at LIMIT ?2);
