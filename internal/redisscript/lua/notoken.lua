-- Replaces token.lua in the scripts that grant on one server of several: no token from one such server rises across the others.
-- Instead of a token, draw returns the server's clock in ms, from which quorum_retake.lua can be given a deadline.
local call = redis.call

local function draw()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
