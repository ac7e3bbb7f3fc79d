-- Counts outcomes taken back; never falls behind a number that was already shown. Returns the new count.
UPDATE idempotency_purge SET count = max(count, ?1) + ?2 WHERE one = 1 RETURNING count;
