end

-- Ends a script that begins with shadow.lua. Returns one reply for each lock. An error affects only its own lock.
local replies, keys, args = {}, tonumber(all_args[1]), tonumber(all_args[2])
for i = 0, #all_keys / keys - 1 do
  for k = 1, keys do
    KEYS[k] = all_keys[i * keys + k]
  end
  for k = 1, args do
    ARGV[k] = all_args[2 + i * args + k]
  end
  local ok, reply = pcall(one)
  if not ok and type(reply) ~= 'table' then
    reply = {err = tostring(reply)}
  end
  replies[i + 1] = reply
end
return replies
