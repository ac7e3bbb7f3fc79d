-- Removes the content of one row and says when the row itself is forgotten. Its version goes on.
UPDATE idempotency_keys
   SET version = version + 1, state = CASE state WHEN 'free' THEN 'free' ELSE 'expired' END,
       epoch = NULL, lease_owner = NULL, lease_until = NULL, doubt = NULL, content_hash = '',
       request_method = '', request_path = '', request_content_type = '', request_body = NULL,
       request_body_apart = 0, subject = NULL, request_masks = NULL, response_status_code = NULL, response_headers = NULL,
       response_body = NULL, response_body_apart = 0, completed_at = NULL, purge_at = ?2
 WHERE rowid = ?1;
