-- What this session is and what guards the tables: one row, and every flag has to be safe before it is used.
SELECT session_user::text, current_user::text, r.rolsuper, r.rolbypassrls,
       count(c.oid) AS tables,
       coalesce(bool_or(pg_has_role(current_user, c.relowner, 'MEMBER')), false) AS owns,
       coalesce(bool_and(c.relrowsecurity), false) AS enabled,
       coalesce(bool_and(c.relforcerowsecurity), false) AS forced,
       current_setting('fsync')::boolean AND current_setting('full_page_writes')::boolean AS syncs
  FROM pg_catalog.pg_roles AS r
  LEFT JOIN pg_catalog.pg_class AS c
    ON c.oid IN (to_regclass('idempotency_keys'), to_regclass('token'), to_regclass('audit_log'),
                to_regclass('tenant_key'), to_regclass('job'), to_regclass('op'),
                to_regclass('job_ready'), to_regclass('job_later'), to_regclass('job_list'), to_regclass('snapshot'),
                to_regclass('snapshot_alias'), to_regclass('entity'), to_regclass('observation'), to_regclass('imports'),
                to_regclass('llm_answer'),
                to_regclass('pkm.runtime_config'), to_regclass('pkm.entries'), to_regclass('pkm.entry_revisions'),
                to_regclass('pkm.idempotency_policies'), to_regclass('pkm.t1_batches'), to_regclass('pkm.t1_batch_items'),
                to_regclass('pkm_test.entries'), to_regclass('pkm_test.entry_revisions'),
                to_regclass('pkm_test.idempotency_policies'), to_regclass('pkm_test.t1_batches'),
                to_regclass('pkm_test.t1_batch_items'))
 WHERE r.rolname = current_user
 GROUP BY r.rolsuper, r.rolbypassrls;
