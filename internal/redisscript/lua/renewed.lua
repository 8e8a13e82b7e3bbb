-- The end of renew.lua.
return replies
