-- Follows queue.lua. Returns {type of the lock, its value, its TTL in ms, waiters}. Changes nothing.
local kind, value = redis.call('TYPE', KEYS[1]).ok, false
if kind == 'string' then
  value = redis.call('GET', KEYS[1])
end
return {kind, value, redis.call('PTTL', KEYS[1]), waiting()}
