-- The rows that have one of these keys or are named, locked in the order of their numbers until the transaction ends.
WITH wanted AS MATERIALIZED (
    SELECT e.entry_id
      FROM {schema}.entries AS e
      JOIN unnest($2::text[], $3::text[]) AS n (policy_key, key)
        ON e.idempotency_key_primary = n.key AND e.idempotency_policy_key = n.policy_key
     WHERE e.tenant_id = $1::uuid AND e.idempotency_key_primary = ANY($3)
     UNION ALL
    SELECT e.entry_id
      FROM {schema}.entries AS e
      JOIN unnest($4::text[], $5::text[]) AS n (policy_key, key)
        ON e.idempotency_key_secondary = n.key AND e.idempotency_policy_key = n.policy_key
     WHERE e.tenant_id = $1 AND e.idempotency_key_secondary = ANY($5)
     UNION ALL
    SELECT e.entry_id FROM {schema}.entries AS e WHERE e.tenant_id = $1 AND e.id = ANY($7::uuid[])
)
SELECT e.entry_id, e.id, e.created_at, e.updated_at, e.revision, e.source, e.intent, e.content_type, e.title,
       e.author, e.capture_text, e.extracted_text, e.clean_text, e.url, e.url_canonical, e.retrieval_excerpt,
       e.retrieval_version, e.clean_word_count, e.clean_char_count, e.extracted_char_count, e.link_count,
       e.link_ratio, e.boilerplate_heavy, e.low_signal, e.quality_score, e.topic_primary, e.topic_primary_confidence,
       e.topic_secondary, e.topic_secondary_confidence, e.keywords::text, e.gist, e.flags::text, e.enrichment_status,
       e.enrichment_model, e.prompt_version, e.enriched_hash, e.metadata::text, e.idempotency_policy_key,
       e.idempotency_key_primary, e.idempotency_key_secondary
  FROM {schema}.entries AS e
 WHERE e.tenant_id = $1 AND e.entry_id = ANY($6::bigint[] || ARRAY(SELECT w.entry_id FROM wanted AS w))
 ORDER BY e.entry_id
   FOR UPDATE OF e;
