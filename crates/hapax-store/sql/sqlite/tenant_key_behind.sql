-- Keys that another master key than this one wraps, at most ?2 of them. Two ranges, so that an index finds them.
SELECT tenant_id, number, key_id, kek_id, wrapped FROM tenant_key WHERE kek_id < ?1
UNION ALL
SELECT tenant_id, number, key_id, kek_id, wrapped FROM tenant_key WHERE kek_id > ?1
LIMIT ?2;
