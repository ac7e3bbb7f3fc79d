-- Writes down that a migration ran.
INSERT INTO schema_migration (number, name, sha256) VALUES ($1::bigint, $2::text, $3::text);
