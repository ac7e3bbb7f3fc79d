-- Writes a mark that goes away by itself. Answers the server's time: it takes writes, if it answers.
-- KEYS: the mark. ARGV: how long it stays, in milliseconds.
local time = redis.call('TIME')
redis.call('SET', KEYS[1], time[1], 'PX', ARGV[1])
return {time[1], time[2]}
