-- Writes these rows as they are now. They are locked; their keys and what the store gave them stay.
UPDATE {schema}.entries AS e
   SET updated_at = n.updated_at, revision = n.revision, source = n.source, intent = n.intent, content_type =
       n.content_type, title = n.title, author = n.author, capture_text = n.capture_text, extracted_text =
       n.extracted_text, clean_text = n.clean_text, url = n.url, url_canonical = n.url_canonical, retrieval_excerpt =
       n.retrieval_excerpt, retrieval_version = n.retrieval_version, clean_word_count = n.clean_word_count,
       clean_char_count = n.clean_char_count, extracted_char_count = n.extracted_char_count, link_count =
       n.link_count, link_ratio = n.link_ratio, boilerplate_heavy = n.boilerplate_heavy, low_signal = n.low_signal,
       quality_score = n.quality_score, topic_primary = n.topic_primary, topic_primary_confidence =
       n.topic_primary_confidence, topic_secondary = n.topic_secondary, topic_secondary_confidence =
       n.topic_secondary_confidence, keywords = n.keywords::jsonb, gist = n.gist, flags = n.flags::jsonb,
       enrichment_status = n.enrichment_status, enrichment_model = n.enrichment_model, prompt_version =
       n.prompt_version, enriched_hash = n.enriched_hash, metadata = n.metadata::jsonb, text_hash = n.text_hash
  FROM unnest(
           $2::bigint[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
           $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[],
           $18::bigint[], $19::bigint[], $20::bigint[], $21::double precision[], $22::boolean[], $23::boolean[],
           $24::double precision[], $25::text[], $26::double precision[], $27::text[], $28::double precision[],
           $29::text[], $30::text[], $31::text[], $32::text[], $33::text[], $34::text[], $35::text[], $36::text[],
           $37::bytea[]
       ) AS n (
           entry_id, updated_at, revision, source, intent, content_type, title, author, capture_text, extracted_text,
           clean_text, url, url_canonical, retrieval_excerpt, retrieval_version, clean_word_count, clean_char_count,
           extracted_char_count, link_count, link_ratio, boilerplate_heavy, low_signal, quality_score, topic_primary,
           topic_primary_confidence, topic_secondary, topic_secondary_confidence, keywords, gist, flags,
           enrichment_status, enrichment_model, prompt_version, enriched_hash, metadata, text_hash
       )
 WHERE e.tenant_id = $1::uuid AND e.entry_id = ANY($2) AND e.entry_id = n.entry_id;
