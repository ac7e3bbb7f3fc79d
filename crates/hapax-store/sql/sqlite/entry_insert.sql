-- Writes a new entry and gives it its number. Its id and its keys must be new.
INSERT INTO {schema}_entries (
    tenant_id, id, created_at, updated_at, revision, source, intent, content_type, title, author, capture_text,
    extracted_text, clean_text, url, url_canonical, retrieval_excerpt, retrieval_version, clean_word_count,
    clean_char_count, extracted_char_count, link_count, link_ratio, boilerplate_heavy, low_signal,
    quality_score, topic_primary, topic_primary_confidence, topic_secondary, topic_secondary_confidence,
    keywords, gist, flags, enrichment_status, enrichment_model, prompt_version, enriched_hash, metadata,
    idempotency_policy_key, idempotency_key_primary, idempotency_key_secondary, text_hash, words_revision
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
    ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?5
);
