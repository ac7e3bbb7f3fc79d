-- Removes the content of records that fell due, and forgets those whose grace is over. Answers how many expired, were
-- retired and were forgotten.
-- KEYS: the index of what falls due, the index of what is forgotten.
-- ARGV: now, how many records at most, the grace, all times in milliseconds; then how a record's key begins, and the
-- fields that go. The records are named by the indexes and lie in their slot.
local now, limit, grace, stem = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local expired, retired, forgotten = 0, 0, 0
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, limit)
for _, member in ipairs(over) do
    redis.call('DEL', stem .. member)
    redis.call('ZREM', KEYS[2], member)
    forgotten = forgotten + 1
end
if forgotten < limit then
    local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, limit - forgotten)
    for _, member in ipairs(due) do
        local key = stem .. member
        local state, expires = unpack(redis.call('HMGET', key, 'state', 'expires_at'))
        redis.call('ZREM', KEYS[1], member)
        if state then
            redis.call('HINCRBY', key, 'version', 1)
            redis.call('HDEL', key, unpack(ARGV, 5))
            redis.call('ZADD', KEYS[2], tonumber(expires) + grace, member)
            if state == 'free' then
                retired = retired + 1
            else
                redis.call('HSET', key, 'state', 'expired')
                expired = expired + 1
            end
        end
    end
end
return {expired, retired, forgotten}
