-- Draws numbers for rows that are inserted next.
SELECT nextval('{schema}.entries_entry_id_seq') FROM generate_series(1, $1::bigint);
