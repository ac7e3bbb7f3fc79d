-- Notes how many times more these snapshots were seen.
UPDATE snapshot AS s
   SET seen = s.seen + n.seen,
       seen_at = greatest(
           s.seen_at, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + $2::bigint
       )
  FROM unnest($3::uuid[], $4::bigint[]) AS n (id, seen)
 WHERE s.tenant_id = $1::uuid AND s.id = ANY($3) AND s.id = n.id;
