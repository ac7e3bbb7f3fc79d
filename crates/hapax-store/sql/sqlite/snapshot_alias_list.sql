-- What older programs call the text of a snapshot, in the order given.
SELECT profile, hash FROM snapshot_alias WHERE snapshot_seq = ?1 ORDER BY nth;
