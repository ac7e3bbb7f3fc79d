-- What was answered under these keys.
SELECT a.request_key, a.raw
  FROM llm_answer AS a
 WHERE a.tenant_id = $1::uuid AND a.request_key = ANY($2::bytea[]);
