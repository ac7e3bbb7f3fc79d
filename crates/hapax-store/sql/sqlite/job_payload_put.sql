-- Stores the payload of a new job, which is never changed.
INSERT INTO job_payload (job_seq, payload) VALUES (?1, ?2);
