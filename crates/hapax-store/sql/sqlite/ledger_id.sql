-- The name of this ledger, which no other has.
SELECT value FROM _meta WHERE key = 'ledger_id';
