-- How many batches of a tenant did not end, each home's counted up to a number.
SELECT (SELECT count(1)
          FROM (SELECT 1 FROM pkm.t1_batches AS b
                 WHERE b.tenant_id = $1::uuid AND b.status IN ('queued', 'submitted', 'collecting') LIMIT $2::bigint) AS real)
     + (SELECT count(1)
          FROM (SELECT 1 FROM pkm_test.t1_batches AS b
                 WHERE b.tenant_id = $1 AND b.status IN ('queued', 'submitted', 'collecting') LIMIT $2) AS tried);
