-- Puts a key under another master key, or says that everything of its tenant is sealed, if nobody changed or deleted it first.
UPDATE tenant_key SET kek_id = ?5, wrapped = ?6
 WHERE tenant_id = ?1 AND number = ?2 AND key_id = ?3 AND wrapped = ?4;
