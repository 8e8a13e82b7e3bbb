-- Precedes the scripts that grant. KEYS of these and of all others that name a lock, all in one slot:
--   1 the lock: string, "lp1:" + owner, with a TTL; any other value is a foreign client's
--   2 the queue: see queue.lua
--   3 the last token drawn on this server or, in a Cluster, for this slot: string, never expires
local call = redis.call

-- Draws a token: the time in microseconds, or the last token + 1 if that is greater. So tokens rise even if the clock is set back, the data
-- is lost or the server is replaced. Lua numbers are doubles, exact up to 2^53; Redis writes them with 17 digits.
local last -- drawn by this script, perhaps for another name
local function draw()
  local time = not last and call('TIME')
  local token = time and time[1] * 1000000 + time[2] or last + 1
  repeat
    last = token
    token = math.max(token, 1 + (call('SET', KEYS[3], token, 'GET') or 0))
    if token >= 9007199254740992 then
      call('SET', KEYS[3], token - 1)
      error('the tokens have run out: delete ' .. KEYS[3])
    end
  until token == last -- the stored token was less
  return token
end
