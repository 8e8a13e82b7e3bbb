-- Follows queue.lua. Retakes a lock that one server of several lost, for a holder that still has the majority. ARGV: value, TTL in ms,
-- deadline in ms by this server's clock: a later request must not bring the lock back.
local owner = string.sub(ARGV[1], 5)
if now_ms() < tonumber(ARGV[3]) and not redis.call('ZSCORE', KEYS[2], '~' .. string.sub(owner, 1, 32))
    and redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  redis.call('ZREM', KEYS[2], '!', owner)
end
return 1
