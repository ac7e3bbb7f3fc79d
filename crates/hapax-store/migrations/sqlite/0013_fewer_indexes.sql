-- Keys are no longer indexed by their beginning: the index was a page of its own for every new key, two fifths of what it
-- cost to write one. A key is found by its id, which is made of it; a beginning is looked for among the newest.
DROP INDEX idx_idempotency_key;
