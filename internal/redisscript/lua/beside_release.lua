-- Follows queue.lua and beside.lua. ARGV: as there, and 1 if another client breaks the claim. Returns 1, or what lost returns.
if not holds() then
  return lost()
end
call('ZREM', KEYS[4], owner)
settle()
if ARGV[3] == '1' then
  tell(owner, 'l')
end
if permits > 0 or count() == 0 then
  call_head()
end
return 1
