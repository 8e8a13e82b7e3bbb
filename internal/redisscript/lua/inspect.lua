-- Follows queue.lua. Changes nothing. KEYS: the lock, the queue and, where there are readers and permits (see beside.lua), the readers, the queue
-- for permits and the permits. Returns {type of the lock, its value, its TTL in ms, waiters}, and with the further keys also the readers, the
-- waiters for permits, the number of permits or 0, and the holders of permits. Holders: {owner, ms until its expiry, owner, …}.
local kind, value = redis.call('TYPE', KEYS[1]).ok, false
if kind == 'string' then
  value = redis.call('GET', KEYS[1])
end
local reply = {kind, value, redis.call('PTTL', KEYS[1]), waiting()}

local function holders(key)
  local now, list = now_ms(), {}
  for i, part in ipairs(redis.call('ZREVRANGEBYSCORE', key, string.format('(%.0f', GONE), now, 'WITHSCORES')) do
    list[i] = i % 2 == 1 and part or part - now
  end
  return list
end

if KEYS[3] then
  reply[5] = value == READERS and holders(KEYS[3]) or {}
  KEYS[2] = KEYS[4] -- for waiting
  local n = redis.call('ZSCORE', KEYS[5], '#')
  reply[6], reply[7], reply[8] = waiting(), n and n - GONE or 0, holders(KEYS[5])
end
return reply
