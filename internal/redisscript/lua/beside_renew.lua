-- Follows demoted.lua, queue.lua and beside.lua. ARGV: as there, and TTL in ms. Returns the number of waiters, or {what lost returns}.
if not holds() then
  return demoted() or {lost()}
end
call('ZREM', KEYS[4], '') -- the first write: that of a full server must not need memory
call('ZADD', KEYS[4], 'XX', now + ARGV[3], owner)
settle()
return waiting()
