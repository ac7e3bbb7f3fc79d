-- What is asked about an entry, as it is now.
SELECT title, author, content_type, clean_text
  FROM {schema}_entries
 WHERE tenant_id = ?1 AND entry_id = ?2;
