-- Whether this transaction is now the one that leads a chore, of all that use this schema.
SELECT pg_try_advisory_xact_lock(hashtextextended('hapax chore ' || $1::text || ' of ' || current_schema(), 0));
