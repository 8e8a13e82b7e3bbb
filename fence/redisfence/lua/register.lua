local key, token = table.remove(KEYS), table.remove(ARGV)
local seen = redis.call('get', key)
if seen and not seen:match('^[1-9]%d*$') then
	return redis.error_reply('LOCKPORTFENCE ?')
end
if seen and (#seen > #token or #seen == #token and seen > token) then
	return redis.error_reply('LOCKPORTFENCE ' .. seen)
end
