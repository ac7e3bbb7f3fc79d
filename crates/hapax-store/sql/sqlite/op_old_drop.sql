-- Drops an older program's operations after every row was copied.
DROP TABLE artifact_ops_before;
