-- Whether some node may answer by a count it has read.
SELECT watched_until > clock_timestamp() FROM idempotency_purge;
