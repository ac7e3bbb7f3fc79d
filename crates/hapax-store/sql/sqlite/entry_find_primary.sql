-- The entry with this primary key under its policy.
SELECT entry_id, id, created_at, updated_at, revision, source, intent, content_type, title, author, capture_text,
       extracted_text, clean_text, url, url_canonical, retrieval_excerpt, retrieval_version, clean_word_count,
       clean_char_count, extracted_char_count, link_count, link_ratio, boilerplate_heavy, low_signal,
       quality_score, topic_primary, topic_primary_confidence, topic_secondary, topic_secondary_confidence,
       keywords, gist, flags, enrichment_status, enrichment_model, prompt_version, enriched_hash, metadata,
       idempotency_policy_key, idempotency_key_primary, idempotency_key_secondary
  FROM {schema}_entries
 WHERE tenant_id = ?1 AND idempotency_policy_key = ?2 AND idempotency_key_primary = ?3;
