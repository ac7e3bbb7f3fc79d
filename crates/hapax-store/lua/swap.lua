-- Moves a record forward if nobody moved it first. Answers the server's time, and whether it is written or what is stored.
-- KEYS: the record, the index of what falls due, the index of what is forgotten.
-- ARGV: the expected version ('' for none), the token of this write, when the record falls due ('' for never), its
-- member in the indexes, 1 if nothing of the old record stays, how many fields go, these fields, then names and values.
local time = redis.call('TIME')
local old = redis.call('HMGET', KEYS[1], 'version', 'write')
-- A client that lost the answer sends the same write again: it is told what it wrote.
if old[2] == ARGV[2] then
    return {time[1], time[2], 1}
end
if (old[1] or '') ~= ARGV[1] then
    return {time[1], time[2], 0, redis.call('HGETALL', KEYS[1])}
end
local gone = tonumber(ARGV[6])
if ARGV[5] == '1' then
    redis.call('DEL', KEYS[1])
elseif gone > 0 then
    redis.call('HDEL', KEYS[1], unpack(ARGV, 7, 6 + gone))
end
redis.call('HSET', KEYS[1], 'write', ARGV[2], unpack(ARGV, 7 + gone))
if ARGV[3] == '' then
    redis.call('ZREM', KEYS[2], ARGV[4])
else
    redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
end
redis.call('ZREM', KEYS[3], ARGV[4])
return {time[1], time[2], 1}
