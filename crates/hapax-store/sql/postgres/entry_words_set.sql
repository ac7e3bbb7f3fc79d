-- Names the words to look for until the transaction ends, none if the database knows no word among them. Lets the planner
-- use the index of words, which is walked as a bitmap and leaves the order to a sort.
SELECT set_config(
           'hapax.words',
           CASE WHEN numnode(plainto_tsquery('simple', pkm.searched($1::text))) > 0 THEN $1 ELSE '' END,
           true
       ),
       set_config('enable_bitmapscan', 'on', true), set_config('enable_sort', 'on', true);
