-- Releases a lock, calls the waiters and claims the lock anew. ARGV: value that releases, value that claims, TTL in ms of the claim.
-- Returns {what release.lua returns, what claim returns}.
local holder = redis.pcall('GET', KEYS[1])
local released = type(holder) == 'table' and '' or holder or 0
if holder == ARGV[1] then
  call('DEL', KEYS[1])
  call_head()
  released = 1
end
return {released, claim(ARGV[2], ARGV[3], true)}
