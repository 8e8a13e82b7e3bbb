-- The end of release.lua, behind queue.lua.
call_head()
return 1
