-- Ends the script that begins with easy.lua. Returns what claim returns.
return claim(ARGV[1], ARGV[2], ARGV[3] == '1', nil, ARGV[4])
