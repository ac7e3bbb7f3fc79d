-- Makes one token visible until the transaction ends.
SELECT set_config('hapax.token_id', $1::uuid::text, true);
