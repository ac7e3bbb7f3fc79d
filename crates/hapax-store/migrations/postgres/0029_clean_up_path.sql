-- What PostgreSQL brings comes first in the clean-up function too: a function that somebody else made in the schema of the
-- ledger, under a name that the clean-up calls, was run with the rights of whoever cleaned up.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION cleanup_expired_idempotency_keys(interval) SET search_path = pg_catalog, %I, pg_temp',
                   current_schema());
END
$$;
