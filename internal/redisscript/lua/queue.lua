-- Precedes the scripts that use the queue, KEYS[2]. The queue only advises whose claim is next; the lock alone decides who holds the name.
-- It is a sorted set. Its members and their scores:
--   an owner that waits: its number, from 1; the least is the head
--   "!": the head was told that it is its turn; minus the time in ms until which nobody else may claim
--   "~" + digits of an owner: an abandoned claim that may still arrive; GONE + the time in ms until which it is refused
--   "~" + digits + "." + number: the same for one request of a claim
-- It ends when it has no members left, 30 s after the last request of a waiter, when the last abandoned claim is
-- no longer refused, or 1 s after its only waiter was called and did not answer.
local TURN_MS, WAITING_MS, ALONE_MS, GONE = 250, 30000, 1000, 4000000000000000

-- The lock's value while readers hold it: see beside.lua.
local READERS = 'lp1:' .. string.rep('0', 32) .. ':readers'

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Sends a word to the owner's client, which the owner names after 32 digits and a colon. A user who may not publish can do all the rest: errors are
-- ignored.
local function tell(owner, word)
  redis.pcall('PUBLISH', 'lockport.wake:' .. string.sub(owner, 34), word .. owner)
end

local function keep(ms)
  if redis.call('PTTL', KEYS[2]) < ms then
    redis.call('PEXPIRE', KEYS[2], ms)
  end
end

-- Marks a claim, or one request of it, as abandoned: it is refused for ms milliseconds at least.
local function abandon(what, ms)
  for _, old in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[2], string.format('%.0f', GONE + now_ms()), string.format('%.0f', GONE), 'LIMIT', 0, 100)) do
    redis.call('ZREM', KEYS[2], old)
  end
  redis.call('ZADD', KEYS[2], string.format('%.0f', GONE + now_ms() + ms), '~' .. what)
  keep(tonumber(ms))
end

local function abandoned(what)
  return redis.call('ZSCORE', KEYS[2], '~' .. what)
end

-- Returns the head, or nil if nobody waits, and until when it is its turn, or nil if it was not told.
local function head()
  local first = redis.call('ZRANGE', KEYS[2], 0, 1, 'WITHSCORES')
  local owner, score, turn = first[1], tonumber(first[2]), nil
  if owner == '!' then
    turn = -score -- on its own: gopher-lua, and so miniredis, assigns from left to right
    owner, score = first[3], tonumber(first[4])
  end
  if owner and score >= GONE then
    owner = nil
  end
  return owner, turn
end

local function waiting()
  return redis.call('ZCOUNT', KEYS[2], 0, '(' .. string.format('%.0f', GONE))
end

-- Tells the head, if any, that it is its turn, unless that turn has begun already: releases must not prolong it. Tells the next one that it may ask
-- when the turn is over, except during a refused claim: that asks again anyway, and would be told each time. Returns the ms left of the turn.
local function call_head(refused)
  local owner, turn = head()
  local now = now_ms()
  if not owner or turn and turn > now and turn - now <= TURN_MS then
    return turn and turn - now
  end
  redis.call('ZADD', KEYS[2], string.format('%.0f', -now - TURN_MS), '!')
  local first = redis.call('ZRANGE', KEYS[2], 0, 2, 'WITHSCORES')
  if #first == 4 then
    redis.call('PEXPIRE', KEYS[2], ALONE_MS)
  end
  tell(owner, 'w')
  if not refused and first[5] and tonumber(first[6]) < GONE then
    tell(first[5], 'n')
  end
  return TURN_MS
end

-- Adds owner with the number at, or at the end if at is nil, unless it waits already.
local function enqueue(owner, at)
  if not redis.call('ZSCORE', KEYS[2], owner) then -- a full server refuses ZADD
    local last = redis.call('ZREVRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', GONE), 0, 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0
    redis.call('ZADD', KEYS[2], at or last + 1, owner)
  end
  keep(WAITING_MS)
end
