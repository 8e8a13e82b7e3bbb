-- Releases a lock, calls the waiters and claims the lock anew. ARGV: value that releases, value that claims, TTL in ms of the claim.
-- Returns {what release.lua returns, what claim returns}.
local released = redis.pcall('GET', KEYS[1])
if released == ARGV[1] then
  call('DEL', KEYS[1])
  call_head()
  released = 1
elseif type(released) == 'table' then
  released = ''
end
return {released or 0, claim(ARGV[2], ARGV[3], true)}
