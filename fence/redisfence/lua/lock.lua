do
	local key, value = table.remove(KEYS), table.remove(ARGV)
	if redis.pcall('get', key) ~= value then
		return redis.error_reply('LOCKPORTLOCK gone')
	end
end
