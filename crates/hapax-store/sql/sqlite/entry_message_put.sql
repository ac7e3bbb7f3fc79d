-- Remembers that an entry has merged this message.
INSERT INTO {schema}_entry_messages (tenant_id, entry_id, message)
VALUES (?1, ?2, ?3)
ON CONFLICT (entry_id, message, tenant_id) DO NOTHING;
