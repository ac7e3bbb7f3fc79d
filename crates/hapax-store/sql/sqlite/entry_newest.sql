-- The numbers of this tenant's entries from the given time on, the newest first.
SELECT entry_id
  FROM {schema}_entries
 WHERE tenant_id = ?1 AND created_at >= ?2
 ORDER BY created_at DESC, entry_id DESC
 LIMIT ?3;
