-- Follows queue.lua, and ends quorum_release.lua. A claim that gives up for want of servers does not call itself. A head that missed its turn
-- is called again while the lock is free here: it may have won on the others, and then never asks this server again.
local owner = string.sub(ARGV[1], 5)
if head() == owner then
  redis.call('ZREM', KEYS[2], '!')
end
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[2], owner)
else
  enqueue(owner, ARGV[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 and head() ~= owner then
  call_head()
end
return reply
