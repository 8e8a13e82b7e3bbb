-- Follows queue.lua, and ends release.lua.
call_head()
return 1
