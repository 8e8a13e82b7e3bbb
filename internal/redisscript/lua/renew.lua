-- Follows demoted.lua. KEYS: the lock. ARGV: value, TTL in ms. Returns 0, or {the lock's value, '' if not a string, 0 if free}.
local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then
  return demoted() or {type(holder) == 'table' and '' or holder or 0}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
