do
	local key, token = table.remove(KEYS), table.remove(ARGV)
	local seen = redis.call('get', key)
	if seen ~= token then
		return redis.error_reply('LOCKPORTFENCE ' .. (seen and (seen:match('^[1-9]%d*$') or '?') or ''))
	end
end
