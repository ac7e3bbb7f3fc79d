-- Those of a tenant's newest entries, so many from this time on and before the given entry, that have the words, newest
-- first. Common words fill a page so; for others the index of words is asked.
SELECT e.entry_id, e.id, e.created_at, e.updated_at, e.revision, e.source, e.intent, e.content_type, e.title,
       e.author, e.capture_text, e.extracted_text, e.clean_text, e.url, e.url_canonical, e.retrieval_excerpt,
       e.retrieval_version, e.clean_word_count, e.clean_char_count, e.extracted_char_count, e.link_count,
       e.link_ratio, e.boilerplate_heavy, e.low_signal, e.quality_score, e.topic_primary, e.topic_primary_confidence,
       e.topic_secondary, e.topic_secondary_confidence, e.keywords::text, e.gist, e.flags::text, e.enrichment_status,
       e.enrichment_model, e.prompt_version, e.enriched_hash, e.metadata::text, e.idempotency_policy_key,
       e.idempotency_key_primary, e.idempotency_key_secondary,
       row_number() OVER (ORDER BY e.created_at DESC, e.entry_id DESC) AS place
  FROM {schema}.entries AS e
 WHERE e.tenant_id = $1::uuid
   AND e.entry_id = ANY(ARRAY(
           SELECT n.entry_id
             FROM (SELECT w.entry_id, w.created_at, w.source, w.found_by
                     FROM {schema}.entries AS w
                    WHERE w.tenant_id = $1 AND w.entry_id > 0 AND w.created_at >= $2::timestamptz
                      AND (w.created_at, w.entry_id) < ($4::timestamptz, $5::bigint)
                    ORDER BY w.created_at DESC, w.entry_id DESC
                    LIMIT $7::bigint) AS n
            WHERE ($6::text IS NULL OR n.source = $6)
              AND n.found_by @@ (SELECT plainto_tsquery('simple', pkm.searched($8::text)))
            ORDER BY n.created_at DESC, n.entry_id DESC
            LIMIT $3::bigint
       ));
