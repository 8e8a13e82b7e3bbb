-- Runs the script for one lock on many locks, one after another. Go puts the parts of that script in the places marked below. KEYS: those of
-- each lock. ARGV: the numbers of keys and of arguments per lock, then the arguments of each. Returns one reply for each lock. An error affects
-- only its own lock: its reply is {'!', text}. It is not an error reply: after some of those in a list, such as OOM, go-redis reads no further, and
-- the next request gets the rest of the list.
local all_keys, all_args, KEYS, ARGV = KEYS, ARGV, {}, {}
--SHARED
local function one() -- sees the keys and arguments of one lock at a time
--SCRIPT
end

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
