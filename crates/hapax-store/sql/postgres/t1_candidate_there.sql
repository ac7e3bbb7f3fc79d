-- Which of these entries are candidates of an import already.
SELECT t.entry_id
  FROM {schema}.t1_batch_items AS t
 WHERE t.tenant_id = $1::uuid AND t.import_id = $2::uuid AND t.entry_id = ANY($3::bigint[]) AND t.status = 'candidate';
