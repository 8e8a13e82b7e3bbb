-- Stands before the scripts that grant. KEYS of these and all others that name a lock, in one slot:
--   1 the lock: string, "lp1:" + owner, with a TTL; any other value is a foreign client's
--   2 the queue: see queue.lua
--   3 the token of the lock: string, deleted with the lock, with four times its TTL, since not every renewal prolongs it
--   4 the last token that was drawn on this server, in a Cluster for this slot: string, for ever
local call = redis.call

-- Draws a token for a lock with a TTL of ttl ms: the time in microseconds, or one more than the last token where that is more. So tokens also rise when the
-- clock is set back, and when the data is lost or the server replaced. Earlier releases of lockport kept the last token of each name in KEYS[3], for 7 days: where
-- it is there, it is exceeded too. Lua counts in doubles, exactly up to 2^53, and Redis writes them with 17 digits.
local last
local function draw(ttl)
  if not last then
    local time = call('TIME')
    last = math.max(time[1] * 1000000 + time[2] - 1, tonumber(call('GET', KEYS[4]) or 0))
  end
  last = math.max(last, tonumber(call('GET', KEYS[3]) or 0)) + 1
  if last >= 9007199254740992 then
    error('the tokens have run out: delete ' .. KEYS[3] .. ' and ' .. KEYS[4])
  end
  call('SET', KEYS[4], last)
  call('SET', KEYS[3], last, 'PX', ttl * 4)
  return last
end

-- The token of a claim that was granted before.
local function last_token(ttl)
  return tonumber(call('GET', KEYS[3]) or draw(ttl))
end
