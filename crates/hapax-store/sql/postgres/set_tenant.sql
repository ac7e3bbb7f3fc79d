-- Makes one tenant's rows visible until the transaction ends, and tells the time.
SELECT set_config('hapax.tenant', $1::uuid::text, true), clock_timestamp();
