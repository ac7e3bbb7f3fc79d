-- This asker asks nothing any more. What it asked is locked in the order of the keys first, so that nobody waits for each
-- other; the empty bytes keep the key's index, which knows no asker, from being walked for that order.
DELETE FROM llm_question AS q
 WHERE q.tenant_id = $1::uuid
   AND q.request_key = ANY(ARRAY(
       SELECT l.request_key
         FROM llm_question AS l
        WHERE l.tenant_id = $1 AND l.asker = $2::uuid
        ORDER BY l.request_key || ''::bytea
          FOR UPDATE
   ));
