-- Follows queue.lua and leave.lua. ARGV: value, ms for which the claim may still arrive (0: it cannot). Returns 1.
local next_is_due = leave_queue(string.sub(ARGV[1], 5), ARGV[2])
local holder = redis.pcall('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  holder, next_is_due = false, true
end
if next_is_due and (not holder or holder == READERS) then -- a reader may be next
  call_head()
end
return 1
