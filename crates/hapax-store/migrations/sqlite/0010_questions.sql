-- Open questions, so that they are found among any number of receipts. It holds what waits for a person, and nothing else.
CREATE INDEX idx_op_waiting ON op (tenant_id, kind, job_seq) WHERE state = 'waiting';
