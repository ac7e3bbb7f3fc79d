-- Who saw a snapshot when, newest first.
SELECT at, seen_by, key_match
  FROM observation
 WHERE snapshot_seq = (SELECT seq FROM snapshot WHERE tenant_id = ?1 AND id = ?3 AND collection = ?2)
 ORDER BY nth DESC
 LIMIT ?4;
