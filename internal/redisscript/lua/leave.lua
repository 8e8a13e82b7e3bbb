-- Follows queue.lua. Takes an owner that is abandoned out of the queue. ms: for how long its claim may still arrive, and is refused (0: it cannot).
-- Returns whether it was the head, so that the next one is due.
local function leave_queue(owner, ms)
  local was_head = head() == owner
  redis.call('ZREM', KEYS[2], owner) -- the first write: that of a full server must not need memory
  if ms ~= '0' then
    abandon(string.sub(owner, 1, 32), ms)
  end
  if was_head then
    redis.call('ZREM', KEYS[2], '!')
  end
  return was_head
end
