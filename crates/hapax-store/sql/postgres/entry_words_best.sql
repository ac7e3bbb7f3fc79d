-- A tenant's entries from this time on that have the words of the session, with their place: those that match best first.
WITH hit AS MATERIALIZED (
    SELECT f.entry_id,
           row_number() OVER (
               ORDER BY ts_rank(f.found_by, (SELECT plainto_tsquery('simple', pkm.searched($4::text)))) DESC,
                        f.created_at DESC, f.entry_id DESC
           ) AS place
      FROM {schema}.entries_found AS f
     WHERE f.created_at >= $2::timestamptz
       AND ($5::text IS NULL OR EXISTS (
           SELECT 1 FROM {schema}.entries AS s WHERE s.tenant_id = $1::uuid AND s.entry_id = f.entry_id AND s.source = $5
       ))
     ORDER BY place
     LIMIT $3::bigint
)
SELECT e.entry_id, e.id, e.created_at, e.updated_at, e.revision, e.source, e.intent, e.content_type, e.title,
       e.author, e.capture_text, e.extracted_text, e.clean_text, e.url, e.url_canonical, e.retrieval_excerpt,
       e.retrieval_version, e.clean_word_count, e.clean_char_count, e.extracted_char_count, e.link_count,
       e.link_ratio, e.boilerplate_heavy, e.low_signal, e.quality_score, e.topic_primary, e.topic_primary_confidence,
       e.topic_secondary, e.topic_secondary_confidence, e.keywords::text, e.gist, e.flags::text, e.enrichment_status,
       e.enrichment_model, e.prompt_version, e.enriched_hash, e.metadata::text, e.idempotency_policy_key,
       e.idempotency_key_primary, e.idempotency_key_secondary,
       h.place
  FROM {schema}.entries AS e
  JOIN hit AS h ON h.entry_id = e.entry_id
 WHERE e.tenant_id = $1::uuid AND e.entry_id = ANY(ARRAY(SELECT hit.entry_id FROM hit));
