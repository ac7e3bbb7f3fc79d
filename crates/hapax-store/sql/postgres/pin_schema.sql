-- Keeps names resolving to the same tables whatever role the session takes. NULL when there is no schema.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', false)
 WHERE current_schema() IS NOT NULL;
