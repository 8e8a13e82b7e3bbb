-- Ends the script that begins with easy.lua, for one server of several. ARGV: as there, and the place in the queue: the time in µs at which
-- the claim began to wait, by the client's clock, so that all servers have the same order. Returns what claim returns.
return claim(ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4])
