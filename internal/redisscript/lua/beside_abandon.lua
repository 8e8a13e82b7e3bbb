-- Follows queue.lua and beside.lua. ARGV: as there, and ms for which the claim may still arrive (0: it cannot). Returns 1.
local next_is_due = head() == owner
call('ZREM', KEYS[2], owner) -- first: see abandon.lua
if ARGV[3] ~= '0' then
  abandon(string.sub(owner, 1, 32), ARGV[3])
end
if next_is_due then
  call('ZREM', KEYS[2], '!')
end
if holds() and leave() then
  next_is_due = true
end
if next_is_due then -- if it does not fit yet, it stays the head
  call_head()
end
return 1
