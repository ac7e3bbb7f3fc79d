-- Writes what the rule changed of a job, all but its result and its error.
UPDATE job
   SET place = ?2, state = ?3, standing = ?4, lease_owner = ?5, lease_until = ?6, epoch = ?7, attempts = ?8,
       failures = ?9, available_at = ?10, redone = ?11, retried = ?12, updated_at = ?13
 WHERE seq = ?1;
