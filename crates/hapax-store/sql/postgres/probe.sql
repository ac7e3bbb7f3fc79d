-- Whether this session could write now.
SELECT NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::boolean;
