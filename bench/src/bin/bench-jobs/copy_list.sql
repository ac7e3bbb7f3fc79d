-- The rows of the lists that planning adds.
COPY job_list (tenant_id, kind, state, seq) FROM STDIN
