-- Stands, in place of token.lua, before the scripts that grant on one server of several: no token that such a server could draw would rise
-- across the others. Where the scripts return a token, this returns the server's clock in ms, by which quorum_retake.lua can
-- be told until when.
local call = redis.call

local function draw()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
