-- One node migrates at a time; the lock goes with the session.
SELECT pg_advisory_lock(7521042968141210745);
