-- Which of our roles exist, whether this login may create them, and whether it may take them.
SELECT (SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname IN ('hapax_app', 'hapax_janitor')) AS present,
       r.rolsuper OR r.rolcreaterole AS may_create,
       r.rolsuper OR (
           SELECT count(*) = 2
             FROM pg_catalog.pg_roles AS ours
            WHERE ours.rolname IN ('hapax_app', 'hapax_janitor')
              AND pg_has_role(current_user, ours.oid,
                              CASE WHEN current_setting('server_version_num')::integer >= 160000
                                   THEN 'SET' ELSE 'MEMBER' END)
       ) AS may_take
  FROM pg_catalog.pg_roles AS r
 WHERE r.rolname = current_user;
