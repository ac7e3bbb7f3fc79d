-- Writes the result and the error of a job.
UPDATE job SET result = ?2, error = ?3 WHERE seq = ?1;
