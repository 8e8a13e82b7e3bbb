-- Follows queue.lua and beside.lua. ARGV: as there, and 1 if another client breaks the claim. Returns 1, or what lost returns.
if not holds() then
  return lost()
end
local last = permits == 0 and count() == 1
if last then -- in a Cluster slot that is being moved, a script must not look at a key that it has deleted
  call('DEL', KEYS[1])
  call('DEL', KEYS[4])
else
  call('ZREM', KEYS[4], owner)
  settle()
end
if ARGV[3] == '1' then
  tell(owner, 'l')
end
if permits > 0 or last then
  call_head()
end
return 1
