-- Writes an import as it is now. It is locked; what was asked for stays.
UPDATE imports AS i
   SET status = $3::text, step = $4::text, cursor_index = $5::bigint, cursor_offset = $6::bigint, cursor_mark = $7::text,
       total_messages = $8::bigint, normalized_ok = $9::bigint, normalize_errors = $10::bigint, inserted = $11::bigint,
       updated = $12::bigint, skipped = $13::bigint, insert_errors = $14::bigint, tier1_candidates = $15::bigint,
       tier1_enqueued_items = $16::bigint, errors = $17::text::jsonb, error = $18::text, updated_at = $19::bigint
 WHERE i.tenant_id = $1::uuid AND i.import_id = $2::uuid;
