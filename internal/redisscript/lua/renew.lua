-- KEYS: the lock. ARGV: value, TTL in ms. Returns 0, or {who else has the lock, '' if that is no string, 0 if nobody has}.
local holder = redis.pcall('GET', KEYS[1])
if holder ~= ARGV[1] then
  return {type(holder) == 'table' and '' or holder or 0}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
