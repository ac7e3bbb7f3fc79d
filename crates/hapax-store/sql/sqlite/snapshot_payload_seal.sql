-- Stores the payload of a snapshot sealed. What it says does not change.
UPDATE snapshot_payload SET payload = ?2 WHERE snapshot_seq = ?1;
