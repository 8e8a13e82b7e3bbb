-- KEYS: locks. ARGV: their values, then their TTLs in ms. Makes replies: for each 1, or who else has it, or 0 if nobody
-- has. renewed.lua or quorum_renewed.lua ends it.
local n, replies = #KEYS, {}
for i = 1, n do
  local holder = redis.pcall('GET', KEYS[i])
  if holder == ARGV[i] then
    redis.call('PEXPIRE', KEYS[i], ARGV[n + i])
    replies[i] = 1
  elseif type(holder) == 'table' then
    replies[i] = ''
  else
    replies[i] = holder or 0
  end
end
