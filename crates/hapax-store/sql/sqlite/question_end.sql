-- Nobody asks this any more.
DELETE FROM llm_question
 WHERE request_key = ?1 AND tenant_id = ?2;
