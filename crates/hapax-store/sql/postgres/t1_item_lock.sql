-- How far these items of a batch are and what they are about, locked in their order until the transaction ends.
SELECT t.item_id, t.status, t.entry_id, t.content_hash
  FROM {schema}.t1_batch_items AS t
 WHERE t.tenant_id = $1::uuid AND t.batch_id = $2::uuid AND t.item_id = ANY($3::bigint[])
 ORDER BY t.item_id
   FOR UPDATE OF t;
