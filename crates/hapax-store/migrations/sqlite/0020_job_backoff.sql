-- How long a job rests after its first failure, in milliseconds: 0 for not at all, NULL for what the program takes.
ALTER TABLE job ADD COLUMN backoff_ms INTEGER CHECK (backoff_ms >= 0);
