-- KEYS: queues. Returns the number of waiters in each.
local replies = {}
for i, queue in ipairs(KEYS) do
  replies[i] = redis.call('ZCOUNT', queue, 0, '(4000000000000000')
end
return replies
