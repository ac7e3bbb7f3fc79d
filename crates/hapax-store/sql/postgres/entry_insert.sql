-- Inserts these rows, numbered already. Fails if one of their keys is taken.
INSERT INTO {schema}.entries (
    tenant_id, entry_id, id, created_at, updated_at, revision, source, intent, content_type, title, author,
    capture_text, extracted_text, clean_text, url, url_canonical, retrieval_excerpt, retrieval_version,
    clean_word_count, clean_char_count, extracted_char_count, link_count, link_ratio, boilerplate_heavy, low_signal,
    quality_score, topic_primary, topic_primary_confidence, topic_secondary, topic_secondary_confidence, keywords,
    gist, flags, enrichment_status, enrichment_model, prompt_version, enriched_hash, metadata, idempotency_policy_key,
    idempotency_key_primary, idempotency_key_secondary, text_hash
)
SELECT $1::uuid, n.entry_id, n.id, n.created_at, n.updated_at, n.revision, n.source, n.intent, n.content_type,
       n.title, n.author, n.capture_text, n.extracted_text, n.clean_text, n.url, n.url_canonical, n.retrieval_excerpt,
       n.retrieval_version, n.clean_word_count, n.clean_char_count, n.extracted_char_count, n.link_count,
       n.link_ratio, n.boilerplate_heavy, n.low_signal, n.quality_score, n.topic_primary, n.topic_primary_confidence,
       n.topic_secondary, n.topic_secondary_confidence, n.keywords::jsonb, n.gist, n.flags::jsonb,
       n.enrichment_status, n.enrichment_model, n.prompt_version, n.enriched_hash, n.metadata::jsonb,
       n.idempotency_policy_key, n.idempotency_key_primary, n.idempotency_key_secondary, n.text_hash
  FROM unnest(
           $2::bigint[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::text[], $8::text[],
           $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
           $17::text[], $18::text[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::double
           precision[], $24::boolean[], $25::boolean[], $26::double precision[], $27::text[], $28::double precision[],
           $29::text[], $30::double precision[], $31::text[], $32::text[], $33::text[], $34::text[], $35::text[],
           $36::text[], $37::text[], $38::text[], $39::text[], $40::text[], $41::text[], $42::bytea[]
       ) WITH ORDINALITY AS n (
           entry_id, id, created_at, updated_at, revision, source, intent, content_type, title, author, capture_text,
           extracted_text, clean_text, url, url_canonical, retrieval_excerpt, retrieval_version, clean_word_count,
           clean_char_count, extracted_char_count, link_count, link_ratio, boilerplate_heavy, low_signal,
           quality_score, topic_primary, topic_primary_confidence, topic_secondary, topic_secondary_confidence,
           keywords, gist, flags, enrichment_status, enrichment_model, prompt_version, enriched_hash, metadata,
           idempotency_policy_key, idempotency_key_primary, idempotency_key_secondary, text_hash, nth
       )
 ORDER BY n.nth;
