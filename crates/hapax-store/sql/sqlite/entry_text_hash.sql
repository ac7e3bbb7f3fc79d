-- The hash of the text to enrich, as it is now, and of the one that was enriched.
SELECT text_hash, enriched_hash
  FROM {schema}_entries
 WHERE tenant_id = ?1 AND entry_id = ?2;
