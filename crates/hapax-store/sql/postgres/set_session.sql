-- Makes one ended session visible until the transaction ends.
SELECT set_config('hapax.session_id', $1::uuid::text, true);
