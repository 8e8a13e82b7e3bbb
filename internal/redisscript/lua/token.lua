-- Stands before the scripts that grant. KEYS of these and all others that name a lock, in one slot:
--   1 the lock: string, "lp1:" + owner, with a TTL; any other value is a foreign client's
--   2 the queue: see queue.lua
--   3 the token: string, the last fencing token, for 7 days after the last grant
local call = redis.call

-- Draws a token: the time in microseconds, or one more than the last token where that is more. So tokens rise also when the
-- clock is set back, and when the data is lost or the server replaced. Lua counts in doubles, exactly up to 2^53, and Redis writes them
-- with 17 digits. A script asks for the time once: tokens of other names need not be less.
local time
local function draw()
  time = time or call('TIME')
  local token = time[1] * 1000000 + time[2]
  local last = call('SET', KEYS[3], token, 'EX', '604800', 'GET')
  if last and tonumber(last) >= token then
    token = tonumber(last) + 1
    if token >= 9007199254740992 then
      error('the token counter ' .. KEYS[3] .. ' has run out: delete it')
    end
    call('SET', KEYS[3], token, 'EX', '604800')
  end
  return token
end

-- The token of a claim that was granted before.
local function last_token()
  return tonumber(call('GET', KEYS[3]) or draw())
end
