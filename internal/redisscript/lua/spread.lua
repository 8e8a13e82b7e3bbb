-- With one key, sets it for a moment. With several, returns how many of them exist, and deletes them.
if #KEYS == 1 then
  redis.call('SET', KEYS[1], '1', 'PX', '10000')
  return 1
end
local n = redis.call('EXISTS', unpack(KEYS))
redis.call('DEL', unpack(KEYS))
return n
