-- Records that a migration ran, in the transaction that ran it.
INSERT INTO schema_migration (number, name, sha256, applied_at) VALUES (?1, ?2, ?3, ?4);
