-- Puts these candidates into a batch, each with the hash of its text.
UPDATE {schema}.t1_batch_items AS t
   SET status = 'queued', batch_id = $2::uuid, content_hash = n.content_hash, updated_at = $3::timestamptz
  FROM unnest($4::bigint[], $5::bytea[]) AS n (item_id, content_hash)
 WHERE t.tenant_id = $1::uuid AND t.item_id = ANY($4) AND t.item_id = n.item_id AND t.batch_id IS NULL;
