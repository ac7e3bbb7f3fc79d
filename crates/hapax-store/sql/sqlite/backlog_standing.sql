-- Whether any moves wait that another ledger noted down, and whether any that this one did.
SELECT EXISTS (SELECT 1 FROM idempotency_backlog WHERE writer <> ?1),
       EXISTS (SELECT 1 FROM idempotency_backlog WHERE writer = ?1);
