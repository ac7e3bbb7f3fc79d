-- All moves that wait, in the order they were made.
SELECT seq, moves FROM idempotency_backlog ORDER BY seq;
