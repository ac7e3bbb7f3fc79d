-- Tells every node that there may be something to lease, once this transaction is committed.
SELECT pg_notify('hapax_jobs', '');
