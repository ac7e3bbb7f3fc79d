-- What was answered to this.
SELECT raw
  FROM llm_answer
 WHERE request_key = ?1 AND tenant_id = ?2;
