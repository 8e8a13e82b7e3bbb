-- Claims with a second request, for a client that gave up on the reply to its first. If the first request arrives later, it is refused.
-- ARGV: as of easy.lua, with the first request's number. Returns what claim returns.
abandon(string.sub(ARGV[1], 5, 36) .. '.' .. ARGV[4], 60000)
return claim(ARGV[1], ARGV[2], ARGV[3] == '1')
