-- Removes the large bodies of a row: one part, or both if none is named.
DELETE FROM idempotency_body
 WHERE tenant_id = ?1 AND id = ?2 AND (?3 IS NULL OR part = ?3);
