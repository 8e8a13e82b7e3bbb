end

-- Ends a script that begins with shadow.lua. Returns one reply for each lock. An error affects only its own lock: its reply is {'!', text}. It is
-- not an error reply: after some of those in a list, such as OOM, go-redis reads no further, and the next request gets the rest of the list.
local replies, keys, args = {}, tonumber(all_args[1]), tonumber(all_args[2])
for i = 0, #all_keys / keys - 1 do
  for k = 1, keys do
    KEYS[k] = all_keys[i * keys + k]
  end
  for k = 1, args do
    ARGV[k] = all_args[2 + i * args + k]
  end
  local ok, reply = pcall(one)
  if not ok or type(reply) == 'table' and reply.err then
    reply = {'!', type(reply) == 'table' and reply.err or tostring(reply)}
    if string.find(reply[2], 'READONLY You', 1, true) then -- a replica has written nothing: see demoted.lua
      return {err = "READONLY You can't write against a read only replica."}
    end
  end
  replies[i + 1] = reply
end
return replies
