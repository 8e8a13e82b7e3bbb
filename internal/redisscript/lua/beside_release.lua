-- Follows demoted.lua, queue.lua and beside.lua. ARGV: as there, and 1 if another client breaks the claim. Returns 1, or what lost returns.
if not holds() then
  return demoted() or lost()
end
local fits = leave()
if ARGV[3] == '1' then
  tell(owner, 'l')
end
if fits then
  call_head()
end
return 1
