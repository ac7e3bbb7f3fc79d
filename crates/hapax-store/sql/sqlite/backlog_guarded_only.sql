-- Whether nothing but the guard of the backlog is triggered by a new row.
SELECT NOT EXISTS (
    SELECT 1 FROM sqlite_schema
     WHERE type = 'trigger' AND tbl_name = 'idempotency_keys' AND name <> 'idempotency_keys_come_after_the_backlog'
);
