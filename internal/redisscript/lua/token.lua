-- Stands before the scripts that grant. KEYS of these and all others that name a lock, in one slot:
--   1 the lock: string, "lp1:" + owner, with a TTL; any other value is a foreign client's
--   2 the queue: see queue.lua
--   3 the last token that was drawn on this server, in a Cluster for this slot: string, for ever
--   4 the last token of the name, as earlier releases of lockport kept it for 7 days: only read
local call = redis.call

-- Draws a token: the time in microseconds, or one more than the last token where that is more. So tokens also rise when the clock is set back, and when the
-- data is lost or the server replaced. Lua counts in doubles, exactly up to 2^53, and Redis writes them with 17 digits.
local last -- that this script has drawn, perhaps for another name
local function draw()
  local time = not last and call('TIME')
  local token = time and time[1] * 1000000 + time[2] or last + 1
  token = math.max(token, 1 + (call('GET', KEYS[4]) or 0))
  repeat
    last = token
    token = math.max(token, 1 + (call('SET', KEYS[3], token, 'GET') or 0))
    if token >= 9007199254740992 then
      call('SET', KEYS[3], token - 1)
      error('the tokens have run out: delete ' .. KEYS[3])
    end
  until token == last -- what there was is less
  return token
end
