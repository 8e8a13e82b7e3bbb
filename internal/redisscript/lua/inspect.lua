-- Returns {type of the lock, its value, its TTL in ms, the last token, how many wait}. Changes nothing.
local kind, value = redis.call('TYPE', KEYS[1]).ok, false
if kind == 'string' then
  value = redis.call('GET', KEYS[1])
end
return {kind, value, redis.call('PTTL', KEYS[1]), KEYS[3] and redis.call('GET', KEYS[3]) or false, waiting()}
