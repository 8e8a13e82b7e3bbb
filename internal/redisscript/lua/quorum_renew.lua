-- Renews locks on one server of several. KEYS: locks. ARGV: their values, then their TTLs in ms. Returns for each lock 1 if renewed, or the
-- lock's value, or 0 if it is free; and last the server's clock in ms.
local n, replies = #KEYS, {}
for i = 1, n do
  local holder = redis.pcall('GET', KEYS[i])
  replies[i] = type(holder) == 'table' and '' or holder or 0
  if holder == ARGV[i] then
    redis.call('PEXPIRE', KEYS[i], ARGV[n + i])
    replies[i] = 1
  end
end
local time = redis.call('TIME')
replies[n + 1] = time[1] * 1000 + math.floor(time[2] / 1000)
return replies
