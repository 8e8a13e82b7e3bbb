-- The end of renew.lua for one server of several. The last reply is its clock, in ms.
local time = redis.call('TIME')
replies[n + 1] = time[1] * 1000 + math.floor(time[2] / 1000)
return replies
