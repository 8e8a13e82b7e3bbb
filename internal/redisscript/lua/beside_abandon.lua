-- Follows queue.lua, leave.lua and beside.lua. ARGV: as there, and ms for which the claim may still arrive (0: it cannot). Returns 1.
local next_is_due = leave_queue(owner, ARGV[3])
if holds() and leave() then
  next_is_due = true
end
if next_is_due then -- if it does not fit yet, it stays the head
  call_head()
end
return 1
