-- Takes requests out of a tenant's rate, as many as there is room for. Answers how many were taken, and if none, in how
-- many milliseconds there is room for one.
-- KEYS: when the rate is unused again. ARGV: microseconds per request, how many may come at once, how many are wanted.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local each, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local unused_at = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
-- A clock that was set back must not refuse for longer than a full burst lasts.
unused_at = math.min(unused_at, now + burst * each)
local taken = math.min(wanted, math.floor((now + burst * each - unused_at) / each))
if taken < 1 then
    return { 0, math.ceil((unused_at + each - now - burst * each) / 1000) }
end
unused_at = unused_at + taken * each
redis.call('SET', KEYS[1], string.format('%.0f', unused_at), 'PX', math.ceil((unused_at - now) / 1000) + 1000)
return { taken, 0 }
