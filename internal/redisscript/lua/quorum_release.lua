-- Gives up what a claim has on one server of several: the lock and the place in the queue. ARGV: value, new place in the queue ('': none).
-- Returns 1 if it held the lock, or the lock's value, or 0 if it is free. quorum_wake.lua ends it.
local holder = redis.pcall('GET', KEYS[1])
local reply = type(holder) == 'table' and '' or holder or 0
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  reply = 1
end
if ARGV[2] == '' and redis.call('EXISTS', KEYS[2]) == 0 then
  return reply
end
