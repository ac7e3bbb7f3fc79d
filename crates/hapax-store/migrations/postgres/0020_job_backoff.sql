-- How long a job rests after its first failure, in milliseconds: 0 for not at all, NULL for what the program takes.
ALTER TABLE job ADD COLUMN backoff_ms bigint;
ALTER TABLE job ADD CONSTRAINT job_backoff_is_a_span CHECK (backoff_ms >= 0) NOT VALID;
