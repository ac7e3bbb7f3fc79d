-- The columns of a table, in order, and whether it is a table.
SELECT shape.name, thing.type
  FROM sqlite_schema AS thing JOIN pragma_table_info(thing.name) AS shape
 WHERE thing.name = ?1
 ORDER BY shape.cid;
