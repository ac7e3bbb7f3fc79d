-- Whether an entry has merged this message.
SELECT EXISTS (
    SELECT 1
      FROM {schema}_entry_messages
     WHERE tenant_id = ?1 AND entry_id = ?2 AND message = ?3
);
