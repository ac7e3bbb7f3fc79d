-- What is masked for those who look at a key: a JSON array of paths, as the route named them when the key was claimed. NULL
-- where it named none, and in rows from before.
ALTER TABLE idempotency_keys ADD COLUMN request_masks text;

-- The sweeper takes them away with the rest, and reads them no more than that.
GRANT UPDATE (request_masks) ON idempotency_keys TO hapax_janitor;
