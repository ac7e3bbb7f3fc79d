-- Puts a key under another master key if nobody did or deleted it first.
UPDATE tenant_key SET kek_id = ?5, wrapped = ?6
 WHERE tenant_id = ?1 AND number = ?2 AND key_id = ?3 AND kek_id = ?4;
