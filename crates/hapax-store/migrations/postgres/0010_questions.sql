-- Open questions, so that they are found among any number of receipts. It holds what waits for a person, and nothing else.
--
-- Keys in doubt have no index like it: a condition on the state of a key would make every settle of every key more than a
-- heap-only update, and doubt is rare.
CREATE INDEX idx_op_waiting ON op (tenant_id, kind, job_id) WHERE state = 'waiting';
