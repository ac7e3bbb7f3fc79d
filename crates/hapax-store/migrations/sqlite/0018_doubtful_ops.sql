-- Operations in doubt, so that they are found among any number of operations. It holds what waits for a person, and nothing
-- else.
CREATE INDEX idx_op_doubtful ON op (tenant_id, job_seq) WHERE state = 'in_doubt';
