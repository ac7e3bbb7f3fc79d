-- Waits until nobody else puts snapshots of the same entities, in the order given. Ends with the transaction.
SELECT count(pg_advisory_xact_lock(n.key)) FROM unnest($1::bigint[]) AS n (key);
