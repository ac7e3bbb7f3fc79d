-- The numbers of this tenant's entries that have all the words, the newest first.
SELECT entries.entry_id
  FROM {schema}_entry_words CROSS JOIN {schema}_entries AS entries ON entries.entry_id = {schema}_entry_words.rowid
 WHERE {schema}_entry_words MATCH ?2 AND entries.tenant_id = ?1 AND entries.created_at >= ?3
   AND (?5 IS NULL OR entries.source = ?5)
   AND (entries.created_at, entries.entry_id) < (?6, ?7)
 ORDER BY entries.created_at DESC, entries.entry_id DESC
 LIMIT ?4;
