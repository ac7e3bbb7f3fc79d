-- The states of an entry that were replaced, newest first, from before the given revision.
SELECT row
  FROM {schema}_entry_revisions
 WHERE entry_id = ?2 AND revision < ?3 AND tenant_id = ?1
 ORDER BY revision DESC
 LIMIT ?4;
