-- KEYS[1] the fence, ARGV[1] the token, both decimal. Returns the token that is registered afterwards. Tokens go beyond what a number of Lua holds
-- exactly, so they are compared as text: the longer one is greater, and of two with one length that which sorts behind.
local token, seen = ARGV[1], redis.call('get', KEYS[1])
if seen then
	if not seen:match('^[1-9]%d*$') or #seen > 20 then
		return redis.error_reply('LOCKPORTFENCE ?')
	end
	if #seen > #token or #seen == #token and seen > token then
		return redis.error_reply('LOCKPORTFENCE ' .. seen)
	end
end
if seen ~= token then
	redis.call('set', KEYS[1], token)
end
return 1
