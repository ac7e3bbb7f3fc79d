-- Which ledger the entries of a cache are of that nodes share. How often an outcome was taken back is counted already.
INSERT INTO _meta (key, value) VALUES ('ledger_id', lower(hex(randomblob(16))));
