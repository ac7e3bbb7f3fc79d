-- Whether a job of this kind is ready to be leased.
SELECT EXISTS (
    SELECT 1 FROM job WHERE standing = 'ready' AND tenant_id = ?1 AND place = ?2 AND kind = ?3
);
