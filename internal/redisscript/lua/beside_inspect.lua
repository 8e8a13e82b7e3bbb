-- Follows queue.lua and beside.lua. Returns {number of permits or 0, waiters, owner, ms until its expiry, owner, …}. Changes nothing.
local n = permits > 0 and call('ZSCORE', KEYS[4], '#')
local reply = {n and n - GONE or 0, waiting()}
if count() > 0 then
  for i, part in ipairs(call('ZREVRANGEBYSCORE', KEYS[4], up_to, now, 'WITHSCORES')) do
    reply[#reply + 1] = i % 2 == 1 and part or part - now
  end
end
return reply
