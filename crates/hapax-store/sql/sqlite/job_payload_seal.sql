-- Stores the payload of a job sealed. What it says does not change.
UPDATE job_payload SET payload = ?2 WHERE job_seq = ?1;
