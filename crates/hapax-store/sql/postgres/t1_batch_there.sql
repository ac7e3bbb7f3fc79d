-- Whether there is a batch with this id.
SELECT b.import_id FROM {schema}.t1_batches AS b WHERE b.tenant_id = $1::uuid AND b.batch_id = $2::uuid;
