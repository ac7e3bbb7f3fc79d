-- Tells every node which leases ended, once this transaction is committed.
SELECT pg_notify('hapax_ended', n.ids) FROM unnest($1::text[]) AS n (ids);
