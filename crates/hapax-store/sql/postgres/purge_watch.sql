-- Says that a node answers by the count for a while.
UPDATE idempotency_purge
   SET watched_until = greatest(watched_until, clock_timestamp() + make_interval(secs => $1::double precision))
RETURNING count;
