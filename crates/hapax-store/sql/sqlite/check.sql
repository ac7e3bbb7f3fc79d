-- A write that changes nothing, to find out whether writes are taken.
UPDATE idempotency_purge SET count = count WHERE one = 1;
