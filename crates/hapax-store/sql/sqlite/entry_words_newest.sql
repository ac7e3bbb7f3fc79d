-- The numbers of this tenant's entries that have all the words, before the given number, those that were kept last first.
-- The index of words is walked from its end and no further than the page, however common the words are.
SELECT entries.entry_id
  FROM {schema}_entry_words CROSS JOIN {schema}_entries AS entries ON entries.entry_id = {schema}_entry_words.rowid
 WHERE {schema}_entry_words MATCH ?2 AND {schema}_entry_words.rowid < ?6 AND entries.tenant_id = ?1
   AND entries.created_at >= ?3 AND (?5 IS NULL OR entries.source = ?5)
 ORDER BY {schema}_entry_words.rowid DESC
 LIMIT ?4;
