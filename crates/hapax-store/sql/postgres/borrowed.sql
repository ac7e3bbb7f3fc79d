-- What a session of ours sets once, for one transaction of a session that others use too. The role comes after it.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)
 WHERE current_schema() IS NOT NULL;
SELECT set_config('synchronous_commit', 'on', true)
 WHERE current_setting('synchronous_commit') = 'off';
SET LOCAL client_min_messages = warning;
SET LOCAL lock_timeout = '500ms';
SET LOCAL idle_in_transaction_session_timeout = '60s';
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_nestloop = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_sort = off;
SET LOCAL random_page_cost = 0.01;
SET LOCAL seq_page_cost = 0.01;
SET LOCAL cpu_index_tuple_cost = 0.1;
SET LOCAL hapax.keeps_queue = 'on';
