-- Keeps a settled record for a while, unless a later one is kept. Answers whether it is kept.
-- KEYS: the entry. ARGV: its version, the count of taken-back outcomes it was read at, for how many milliseconds it
-- stays, then names and values.
local old = redis.call('HMGET', KEYS[1], 'version', 'purges')
local version, purges = tonumber(old[1]), tonumber(old[2])
if version and purges then
    if version > tonumber(ARGV[1]) or (version == tonumber(ARGV[1]) and purges >= tonumber(ARGV[2])) then
        return 0
    end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'purges', ARGV[2], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
