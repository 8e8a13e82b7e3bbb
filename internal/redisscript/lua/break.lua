-- Follows demoted.lua and queue.lua. ARGV: value that the lock must have, "" for one that is not a string. Returns 1, or 0 if the lock is free or
-- differs.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  value = ''
end
if value ~= ARGV[1] then
  return demoted() or 0
end
redis.call('DEL', KEYS[1])
if string.sub(value, 1, 4) == 'lp1:' then
  tell(string.sub(value, 5), 'l')
end
call_head()
return 1
