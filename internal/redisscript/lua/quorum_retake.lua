-- Takes a lock again that one server of several has lost, for a holder that still has the majority. Behind queue.lua. ARGV: value, TTL in ms, until when by this
-- server's clock in ms: a request that comes later must not bring a lock back.
local owner = string.sub(ARGV[1], 5)
if now_ms() < tonumber(ARGV[3]) and not redis.call('ZSCORE', KEYS[2], '~' .. string.sub(owner, 1, 32))
    and redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  redis.call('ZREM', KEYS[2], '!', owner)
end
return 1
