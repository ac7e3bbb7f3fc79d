-- This asker asks nothing any more.
DELETE FROM llm_question
 WHERE tenant_id = ?1 AND asker = ?2;
