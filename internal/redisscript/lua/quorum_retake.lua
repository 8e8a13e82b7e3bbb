-- Takes locks again that one server of several has lost, for a holder that still has the majority. Behind queue.lua. KEYS: locks, then their
-- queues. ARGV: their values, their TTLs in ms, then until when by this server's clock in ms: a request that comes later than that must not
-- bring a lock back. Returns how many it took.
local n, now, taken = #KEYS / 2, now_ms(), 0
for i = 1, n do
  local owner = string.sub(ARGV[i], 5)
  if now < tonumber(ARGV[2 * n + i]) and not redis.call('ZSCORE', KEYS[n + i], '~' .. string.sub(owner, 1, 32))
      and redis.call('SET', KEYS[i], ARGV[i], 'PX', ARGV[n + i], 'NX') then
    redis.call('ZREM', KEYS[n + i], '!', owner)
    taken = taken + 1
  end
end
return taken
