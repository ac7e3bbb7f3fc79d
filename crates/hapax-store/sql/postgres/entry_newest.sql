-- A tenant's entries from this time on and before the given entry, newest first.
SELECT e.entry_id, e.id, e.created_at, e.updated_at, e.revision, e.source, e.intent, e.content_type, e.title,
       e.author, e.capture_text, e.extracted_text, e.clean_text, e.url, e.url_canonical, e.retrieval_excerpt,
       e.retrieval_version, e.clean_word_count, e.clean_char_count, e.extracted_char_count, e.link_count,
       e.link_ratio, e.boilerplate_heavy, e.low_signal, e.quality_score, e.topic_primary, e.topic_primary_confidence,
       e.topic_secondary, e.topic_secondary_confidence, e.keywords::text, e.gist, e.flags::text, e.enrichment_status,
       e.enrichment_model, e.prompt_version, e.enriched_hash, e.metadata::text, e.idempotency_policy_key,
       e.idempotency_key_primary, e.idempotency_key_secondary
  FROM {schema}.entries AS e
 WHERE e.tenant_id = $1::uuid AND e.created_at >= $2::timestamptz AND e.entry_id > 0
   AND (e.created_at, e.entry_id) < ($4::timestamptz, $5::bigint)
 ORDER BY e.created_at DESC, e.entry_id DESC
 LIMIT $3::bigint;
