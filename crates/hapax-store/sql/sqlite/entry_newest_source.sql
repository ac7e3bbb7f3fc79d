-- The numbers of this tenant's entries of one source from the given time on and before the given entry, the newest first.
SELECT entry_id
  FROM {schema}_entries
 WHERE tenant_id = ?1 AND source = ?6 AND created_at >= ?2 AND (created_at, entry_id) < (?4, ?5)
 ORDER BY created_at DESC, entry_id DESC
 LIMIT ?3;
