-- Takes the words of an entry out of the index.
DELETE FROM {schema}_entry_words
 WHERE rowid = ?1;
