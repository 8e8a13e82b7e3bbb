-- Follows token.lua, queue.lua and beside.lua. ARGV: as there, and TTL in ms, 1 to wait in the queue. Returns what claim in claim.lua
-- returns, or {3, n} if the name has n permits, another number.
local ttl, queue = ARGV[3], ARGV[4] == '1'
if abandoned(string.sub(owner, 1, 32)) then
  return {2}
end
for _, gone in ipairs(call('ZRANGE', KEYS[4], '-inf', string.format('(%.0f', now), 'BYSCORE')) do
  call('ZREM', KEYS[4], gone)
end
local room = not lock or lock == READERS
if permits > 0 then
  local n = call('ZSCORE', KEYS[4], '#')
  if n and n - GONE ~= permits and count() > 0 then
    return {3, n - GONE}
  end
  room = count() < permits
end
local first, turn = head()
local dead = room and first and first ~= owner and turn and turn <= now -- it missed its turn
if dead then
  call('ZREM', KEYS[2], '!', first)
  first, turn = head()
end
if not holds() and not (room and (not first or first == owner)) then
  local waited = call('ZSCORE', KEYS[2], owner)
  local ms = call('PTTL', KEYS[1])
  if not room then
    if turn and first == owner then -- another client was quicker, or the call came too early: the head stays the head
      call('ZREM', KEYS[2], '!')
    end
    if permits > 0 then
      ms = call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2] - now + 1
    end
  elseif not lock then -- also for permits: the head can be granted its claim
    ms = call_head(true)
  elseif turn or waited or dead then -- the head may be a writer, which must wait for the readers: it stays the head if it answers
    local left = call_head(true)
    if turn or dead then -- the next may be dead too: ask again when its turn is over
      ms = left
    end
  end
  if queue then
    enqueue(owner)
    if not waited then
      tell_holders()
    end
  end
  local value = type(lock) == 'string' and lock or ''
  return {0, ms, (not lock or string.sub(value, 1, 4) == 'lp1:') and 0 or 1, value}
end
call('ZREM', KEYS[2], '!', owner)
local token = draw()
if permits > 0 then
  call('ZADD', KEYS[4], string.format('%.0f', GONE + permits), '#', now + ttl, owner)
elseif lock then
  call('ZADD', KEYS[4], now + ttl, owner)
else
  call('DEL', KEYS[4])
  call('ZADD', KEYS[4], now + ttl, owner)
  call('SET', KEYS[1], READERS, 'PX', ttl)
end
settle()
if first == owner and (permits == 0 or count() < permits) then -- the next waiter may fit too
  call_head()
end
return {1, token, waiting()}
