-- The rows of the queue that planning adds.
COPY job_ready (tenant_id, place, kind, attempts, seq) FROM STDIN
