-- Has this asker ask this, unless somebody else does.
INSERT INTO llm_question (tenant_id, request_key, asker, until)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (request_key, tenant_id) DO UPDATE
   SET asker = excluded.asker, until = excluded.until
 WHERE llm_question.asker = excluded.asker OR llm_question.until <= ?5;
