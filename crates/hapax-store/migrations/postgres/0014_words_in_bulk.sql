-- The words of new entries wait in a list of at most 32 pages and are filed together: one by one they were two fifths of
-- what an import cost. A search reads that list too.
ALTER INDEX pkm.idx_entries_found_by SET (fastupdate = on, gin_pending_list_limit = 256);
ALTER INDEX pkm_test.idx_entries_found_by SET (fastupdate = on, gin_pending_list_limit = 256);

-- New texts are compressed with lz4, which takes a fraction of the time. A server that was built without it keeps pglz.
DO $lz4$
DECLARE
    home text;
BEGIN
    FOREACH home IN ARRAY ARRAY['pkm', 'pkm_test'] LOOP
        EXECUTE format(
            'ALTER TABLE %I.entries
                 ALTER capture_text SET COMPRESSION lz4,
                 ALTER extracted_text SET COMPRESSION lz4,
                 ALTER clean_text SET COMPRESSION lz4,
                 ALTER metadata SET COMPRESSION lz4,
                 ALTER found_by SET COMPRESSION lz4', home);
        EXECUTE format('ALTER TABLE %I.entry_revisions ALTER "row" SET COMPRESSION lz4', home);
    END LOOP;
EXCEPTION
    WHEN feature_not_supported THEN
        RAISE NOTICE 'this server has no lz4';
END
$lz4$;
