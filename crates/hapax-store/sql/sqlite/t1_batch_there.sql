-- Whether this tenant has a batch with this id.
SELECT EXISTS (
    SELECT 1
      FROM {schema}_t1_batches
     WHERE tenant_id = ?1 AND batch_id = ?2
);
