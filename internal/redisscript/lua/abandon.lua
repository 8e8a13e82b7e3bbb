-- Follows queue.lua. ARGV: value, ms for which the claim may still arrive (0: it cannot). Returns 1.
local owner = string.sub(ARGV[1], 5)
local next_is_due = head() == owner
redis.call('ZREM', KEYS[2], owner) -- the first write: that of a full server must not need memory
if ARGV[2] ~= '0' then
  abandon(string.sub(owner, 1, 32), ARGV[2])
end
if next_is_due then
  redis.call('ZREM', KEYS[2], '!')
end
local holder = redis.pcall('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  holder, next_is_due = false, true
end
if next_is_due and (not holder or holder == READERS) then -- a reader may be next
  call_head()
end
return 1
