-- Waits until nobody else writes entries with the same keys, in the order given. Ends with the transaction.
SELECT count(pg_advisory_xact_lock(n.key)) FROM unnest($1::bigint[]) AS n (key);
