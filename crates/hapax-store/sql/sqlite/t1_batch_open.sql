-- How many batches of a tenant did not end, each home's counted up to a number.
SELECT (SELECT count(1)
          FROM (SELECT 1 FROM pkm_t1_batches INDEXED BY idx_pkm_t1_batches_live
                 WHERE tenant_id = ?1 AND status IN ('queued', 'submitted', 'collecting') LIMIT ?2))
     + (SELECT count(1)
          FROM (SELECT 1 FROM pkm_test_t1_batches INDEXED BY idx_pkm_test_t1_batches_live
                 WHERE tenant_id = ?1 AND status IN ('queued', 'submitted', 'collecting') LIMIT ?2));
