-- Lets a restricted login see that nothing is pending.
GRANT SELECT ON schema_migration TO PUBLIC;
