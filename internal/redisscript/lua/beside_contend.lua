-- Follows queue.lua and beside.lua. Tells readers that a writer waits. Returns 1.
tell_holders()
return 1
