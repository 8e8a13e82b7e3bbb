-- The end of quorum_release.lua, behind queue.lua. Who gives up because it has too few servers does not call itself.
local owner = string.sub(ARGV[1], 5)
local was_head = head() == owner
if was_head then
  redis.call('ZREM', KEYS[2], '!')
end
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[2], owner)
else
  enqueue(owner, ARGV[2])
end
if (ours or was_head) and head() ~= owner and redis.call('EXISTS', KEYS[1]) == 0 then
  call_head()
end
return holder or 0
