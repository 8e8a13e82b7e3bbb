-- The beginning of acquire.lua, behind token.lua: nobody has the name, and nobody waits. ARGV: value, TTL in ms, 1 to wait in the
-- queue, a number of this request. Returns the token. The lock is set last, here as elsewhere, so that an error means that nothing was granted.
if call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local token = draw()
  call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return token
end
