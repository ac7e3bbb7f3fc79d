-- Reads the rows and the index of their ids from end to end, so that both are in memory as far as it goes.
SELECT sum(length(route_pattern)) FROM idempotency_keys;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT count(1) FROM (SELECT tenant_id, id FROM idempotency_keys ORDER BY tenant_id, id) AS ids;
