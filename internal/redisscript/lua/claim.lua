-- Follows token.lua or notoken.lua, and queue.lua. Precedes acquire.lua, quorum_acquire.lua, again.lua and requeue.lua.

-- Claims the name where easy.lua did not. at: place in the queue; number: of this request; either may be nil. Returns
--   {1, token, waiters} if granted
--   {2} if the claim or the request was abandoned
--   {0, ms until it may be free or -1, 1 if the holder is foreign, the lock's value} otherwise
-- The value is '' if it is not a string, or if the lock is free and another owner is next.
local function claim(value, ttl, queue, at, number)
  local owner = string.sub(value, 5)
  local first, turn = head()
  local digits = string.sub(owner, 1, 32)
  if abandoned(digits) or number and abandoned(digits .. '.' .. number) then
    return {2}
  end
  if call('EXISTS', KEYS[1]) == 1 then
    local holder = redis.pcall('GET', KEYS[1])
    if type(holder) ~= 'string' then -- another type
      holder = ''
    end
    if holder == value then -- granted before, but the reply was lost
      local token, waiters = draw(), waiting()
      call('PEXPIRE', KEYS[1], ttl)
      return {1, token, waiters}
    end
    if turn and first == owner then -- a foreign client was quicker: the head stays the head
      call('ZREM', KEYS[2], '!')
    end
    local ours = string.sub(holder, 1, 4) == 'lp1:'
    if queue then
      enqueue(owner, at)
      if ours then
        tell(string.sub(holder, 5), 'c')
      end
    end
    return {0, call('PTTL', KEYS[1]), ours and 0 or 1, holder}
  end
  if first and first ~= owner and turn and turn <= now_ms() then -- it missed its turn
    call('ZREM', KEYS[2], '!', first)
    first = head()
  end
  if first and first ~= owner then
    local left = call_head(true)
    if queue then
      enqueue(owner, at)
    end
    return {0, left, 0, ''}
  end
  call('ZREM', KEYS[2], '!', owner)
  local token, waiters = draw(), waiting() -- first: the user may lack a right
  call('SET', KEYS[1], value, 'PX', ttl)
  return {1, token, waiters}
end
