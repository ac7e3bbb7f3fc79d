-- Notes that a snapshot was seen again. Returns how often it was.
UPDATE snapshot
   SET seen = seen + 1, seen_at = max(seen_at, ?2)
 WHERE seq = ?1
RETURNING seen;
