-- Whether the rest of a job of this kind is over.
SELECT EXISTS (
    SELECT 1
      FROM job
     WHERE standing = 'resting' AND tenant_id = ?1 AND place = ?2 AND kind = ?3 AND available_at <= ?4
);
