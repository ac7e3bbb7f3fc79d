-- Takes back candidates that need no enrichment.
DELETE FROM {schema}.t1_batch_items AS t
 WHERE t.tenant_id = $1::uuid AND t.item_id = ANY($2::bigint[]) AND t.batch_id IS NULL;
