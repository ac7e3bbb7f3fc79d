-- Fills in the hash of a snapshot that has none, or says why it gets none.
UPDATE snapshot
   SET payload_hash = ?2, hash_state = ?3
 WHERE seq = ?1 AND payload_hash IS NULL;
