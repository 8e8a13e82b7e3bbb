-- Follows demoted.lua. ARGV: value. Returns 1, or the lock's value, or 0 if it is free. wake.lua ends it.
local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then
  return demoted() or type(holder) == 'table' and '' or holder or 0
end
redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 0 then
  return 1
end
