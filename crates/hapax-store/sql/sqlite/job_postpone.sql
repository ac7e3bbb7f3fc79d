-- Takes a job that cannot be read out of the way of the others until later. Nothing else of it is changed.
UPDATE job SET standing = 'resting', available_at = ?2 WHERE seq = ?1;
