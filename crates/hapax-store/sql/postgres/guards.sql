-- Every table with a tenant_id in the schemas of hapax, and every view over one that this role may read, with what guards
-- it: a row for each policy, or one row without.
WITH RECURSIVE tenanted AS (
    SELECT c.oid
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
     WHERE n.nspname IN (current_schema(), 'pkm', 'pkm_test') AND c.relkind IN ('r', 'p', 'f')
       AND a.attname = 'tenant_id' AND NOT a.attisdropped
), reached (oid) AS (
    SELECT oid FROM tenanted
     UNION
    SELECT r.ev_class
      FROM reached AS f
      JOIN pg_catalog.pg_depend AS d
        ON d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = f.oid
       AND d.classid = 'pg_catalog.pg_rewrite'::regclass
      JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
)
SELECT CASE n.nspname WHEN current_schema() THEN c.relname::text ELSE n.nspname || '.' || c.relname END AS name,
       c.relkind::text AS kind, c.relrowsecurity AS enabled, c.relforcerowsecurity AS forced,
       pg_has_role(current_user, c.relowner, 'MEMBER') AS owns, pg_get_userbyid(c.relowner)::text AS owner,
       coalesce(lower(c.reloptions::text)::text[] && ARRAY['security_invoker=true', 'security_invoker=on', 'security_invoker=1',
                'security_invoker=yes'], false) AS invoker,
       p.polname::text AS policy, p.polpermissive AS permissive, p.polcmd::text AS command,
       (SELECT string_agg(CASE r WHEN 0 THEN 'public' ELSE pg_get_userbyid(r)::text END, ',' ORDER BY r)
          FROM unnest(p.polroles) AS r) AS roles,
       pg_get_expr(p.polqual, p.polrelid) AS "using", pg_get_expr(p.polwithcheck, p.polrelid) AS "check"
  FROM reached AS f
  JOIN pg_catalog.pg_class AS c ON c.oid = f.oid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_policy AS p ON p.polrelid = c.oid
 WHERE c.relkind IN ('r', 'p', 'f') OR has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE')
    OR has_table_privilege(c.oid, 'DELETE')
 ORDER BY 1, p.polname;
