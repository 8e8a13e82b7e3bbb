-- Follows queue.lua, in the scripts of claims that hold a name beside others: readers and permits. KEYS: as of token.lua, and
--   4 the holders: a sorted set of owners, scored with the time in ms until which each holds
-- Readers: while there are any, the lock's value is READERS. Otherwise the set is left over from readers whose lock was removed.
-- Permits: they have their own queue and ignore the lock. Their set also has the member "#", scored with GONE + the number of permits.
-- ARGV: owner, number of permits (0: a reader).
local call = redis.call
local owner, permits = ARGV[1], tonumber(ARGV[2])
local lock = permits == 0 and redis.pcall('GET', KEYS[1])
local now, up_to = now_ms(), string.format('(%.0f', GONE)

-- The number of holders. For readers, the caller knows that the lock's value is READERS.
local function count()
  return call('ZCOUNT', KEYS[4], now, up_to)
end

-- Whether the owner holds.
local function holds()
  local score = call('ZSCORE', KEYS[4], owner)
  return score and (permits > 0 or lock == READERS) and tonumber(score) >= now
end

-- Makes the keys expire with the last holder, plus 1 ms because expiries are rounded down.
local function settle()
  local last = call('ZREVRANGEBYSCORE', KEYS[4], up_to, now, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  for i = permits > 0 and 4 or 1, 4, 3 do
    if last then
      call('PEXPIRE', KEYS[i], last - now + 1)
    else
      call('DEL', KEYS[i])
    end
  end
end

-- Ends the owner's hold. Returns whether the head of the queue may fit now. In a Cluster slot that is being moved, a script must not look at a key that
-- it has deleted.
local function leave()
  local last = permits == 0 and count() == 1
  if last then
    call('DEL', KEYS[1])
    call('DEL', KEYS[4])
  else
    call('ZREM', KEYS[4], owner)
    settle()
  end
  return permits > 0 or last
end

-- What has the lock instead of the owner: its value, '' if not a string, 0 if free.
local function lost()
  return lock ~= READERS and (type(lock) == 'table' and '' or lock) or 0
end

-- Tells the holders, a writer or the members of the set, that somebody waits.
local function tell_holders()
  if type(lock) == 'string' and string.sub(lock, 1, 4) == 'lp1:' and lock ~= READERS then
    tell(string.sub(lock, 5), 'c')
  else
    for _, holder in ipairs(call('ZREVRANGEBYSCORE', KEYS[4], up_to, now)) do
      tell(holder, 'c')
    end
  end
end
