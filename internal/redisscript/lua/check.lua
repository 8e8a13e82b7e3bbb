-- Tries the scripts' commands on KEYS[1] and KEYS[2], which nobody uses, and leaves nothing. It only reads the other keys.
-- Returns {command, error, …} for the commands that failed.
local failed = {}
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = (...)
    failed[#failed + 1] = reply.err
  end
end
try('EXISTS', KEYS[1], KEYS[2])
try('TIME')
for i = 3, #KEYS do
  try('GET', KEYS[i])
end
try('SET', KEYS[1], '1', 'PX', '1000', 'GET')
try('GET', KEYS[1])
try('TYPE', KEYS[1])
try('PTTL', KEYS[1])
try('PEXPIRE', KEYS[1], '1000')
try('ZADD', KEYS[2], '1', '1')
try('ZSCORE', KEYS[2], '1')
try('ZCOUNT', KEYS[2], '0', '1')
try('ZREVRANGEBYSCORE', KEYS[2], '1', '0')
try('ZRANGE', KEYS[2], '0', '0')
try('ZREM', KEYS[2], '1')
try('DEL', KEYS[1], KEYS[2])
try('PUBLISH', 'lockport.wake:', '')
return failed
