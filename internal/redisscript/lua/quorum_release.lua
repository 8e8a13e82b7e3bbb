-- Gives up what a claim has on one server of several: the lock, if it has it there, and its place in the queue. ARGV: value, the place in the
-- queue that it is to have from now on, or ''. Returns 1 if it had the lock, or who else has, or 0 if nobody has. quorum_wake.lua ends it.
local holder = redis.pcall('GET', KEYS[1])
local ours = holder == ARGV[1]
if ours then
  redis.call('DEL', KEYS[1])
  holder = 1
elseif type(holder) == 'table' then
  holder = ''
end
if ARGV[2] == '' and redis.call('EXISTS', KEYS[2]) == 0 then
  return holder or 0
end
