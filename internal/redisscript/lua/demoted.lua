-- Precedes the scripts that may answer without a write that a lock is another's or free: a replica that lags may lack the lock. Returns the error of
-- such a server, or nil. Its write does nothing. go-redis drops the connection if it sees this error.
local function demoted()
  local written = redis.pcall('ZREM', KEYS[1], '') -- an error for another reason, such as the type of the key, does not matter
  if type(written) == 'table' and string.find(written.err, 'READONLY You', 1, true) then
    return {err = "READONLY You can't write against a read only replica."}
  end
end
