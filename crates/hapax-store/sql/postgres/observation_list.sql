-- Who saw a snapshot when, newest first.
SELECT o.at, o.seen_by, o.key_match
  FROM observation AS o
 WHERE o.tenant_id = $1::uuid
   AND o.snapshot_seq = (
           SELECT s.seq FROM snapshot AS s WHERE s.tenant_id = $1 AND s.id = $3::uuid AND s.collection = $2::text
       )
 ORDER BY o.nth DESC
 LIMIT $4::bigint;
