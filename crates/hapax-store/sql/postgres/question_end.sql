-- Nobody asks these any more. They are locked in the order of their keys first, so that two who end the same never wait
-- for each other.
DELETE FROM llm_question AS q
 WHERE q.tenant_id = $1::uuid
   AND q.request_key = ANY(ARRAY(
       SELECT l.request_key
         FROM llm_question AS l
        WHERE l.tenant_id = $1 AND l.request_key = ANY($2::bytea[])
        ORDER BY l.request_key
          FOR UPDATE
   ));
