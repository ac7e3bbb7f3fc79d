-- Whether a shelf keeps something under this hash.
SELECT count(1) FROM snapshot WHERE tenant_id = ?1 AND collection = ?2 AND payload_hash = ?3;
