-- Writes how far these items are. They are locked; what is not given of an answer, a result and a first miss stays.
UPDATE {schema}.t1_batch_items AS t
   SET status = n.status, raw = coalesce(n.raw, t.raw), result = coalesce(n.result::jsonb, t.result), error = n.error,
       missed_in = coalesce(t.missed_in, n.missed_in), updated_at = greatest(t.updated_at, $3::timestamptz)
  FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[])
       AS n (item_id, status, raw, result, error, missed_in)
 WHERE t.tenant_id = $1::uuid AND t.batch_id = $2::uuid AND t.item_id = ANY($4) AND t.item_id = n.item_id;
