-- Stands, behind queue.lua, before the scripts of claims that hold a name beside others: readers, and those that have a permit. KEYS: as of
-- token.lua, and
--   5 the holders: a sorted set of owners, with the time in ms until which each holds
-- Readers: while there are any, the lock's value is READERS, until the last of them ends. Without that value the set is what is left of readers whose lock
-- was removed. Permits: they have a queue of their own, and the lock plays no part. Their set has the member "#" too, with GONE + how many permits there are.
-- ARGV: owner, number of permits or 0 for a reader.
local call = redis.call
local owner, permits = ARGV[1], tonumber(ARGV[2])
local lock = permits == 0 and redis.pcall('GET', KEYS[1])
local now, up_to = now_ms(), string.format('(%.0f', GONE)

-- How many hold.
local function count()
  return (permits > 0 or lock == READERS) and call('ZCOUNT', KEYS[5], now, up_to) or 0
end

-- Whether the owner holds.
local function holds()
  local score = call('ZSCORE', KEYS[5], owner)
  return score and (permits > 0 or lock == READERS) and tonumber(score) >= now
end

-- Lets the keys live until the last holder ends, by a millisecond more since an expiry is rounded down.
local function settle()
  local last = call('ZREVRANGEBYSCORE', KEYS[5], up_to, now, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  for i = permits > 0 and 5 or 1, 5, 4 do
    if last then
      call('PEXPIRE', KEYS[i], last - now + 1)
    else
      call('DEL', KEYS[i])
    end
  end
end

-- Why the owner does not hold: who else has the lock, '' for what is no string, or 0.
local function lost()
  return lock and lock ~= READERS and (type(lock) == 'table' and '' or lock) or 0
end

-- Tells the holders that somebody waits: a writer, or those in the set.
local function tell_holders()
  if type(lock) == 'string' and string.sub(lock, 1, 4) == 'lp1:' and lock ~= READERS then
    tell(string.sub(lock, 5), 'c')
  elseif count() > 0 then
    for _, holder in ipairs(call('ZREVRANGEBYSCORE', KEYS[5], up_to, now)) do
      tell(holder, 'c')
    end
  end
end
