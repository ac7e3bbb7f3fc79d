-- What this session is: one row. What guards the tables is in guards.sql.
SELECT session_user::text, current_user::text, r.rolsuper, r.rolbypassrls,
       current_setting('fsync')::boolean AND current_setting('full_page_writes')::boolean AS syncs
  FROM pg_catalog.pg_roles AS r
 WHERE r.rolname = current_user;
