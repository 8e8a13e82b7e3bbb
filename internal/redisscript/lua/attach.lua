-- Follows demoted.lua and queue.lua. Gives a lock to another owner. ARGV: value of the new owner, TTL in ms, value that the lock must have, token of the
-- claim. Returns {1, token, waiters}, {2} if the claim was abandoned, or else {0, the lock's value, '' if not a string, 0 if free}.
local holder = redis.pcall('GET', KEYS[1])
if abandoned(string.sub(ARGV[1], 5, 36)) then
  return {2}
end
if holder ~= ARGV[1] and holder ~= ARGV[3] then
  return demoted() or {0, type(holder) == 'table' and '' or holder or 0}
end
local waiters = waiting()
redis.call('PEXPIRE', KEYS[1], ARGV[2]) -- the first write: that of a full server must not need memory
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, tonumber(ARGV[4]), waiters}
