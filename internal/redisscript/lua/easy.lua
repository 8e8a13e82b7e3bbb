-- Starts acquire.lua, after token.lua: the name is free and nobody waits. ARGV: value, TTL in ms, 1 to wait in the queue, number of this
-- request. Returns the token. As elsewhere, the lock is set last, so an error means that nothing was granted.
if call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local token = draw()
  call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return token
end
