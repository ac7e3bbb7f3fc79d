-- Puts the words of an entry into the index.
INSERT INTO {schema}_entry_words (rowid, title, author, clean_text)
VALUES (?1, ?2, ?3, ?4);
