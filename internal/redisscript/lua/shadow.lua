-- The beginning of a script that does for many locks, one after the other, what another script does for one. That script stands, as the function one,
-- between one.lua and each.lua, and sees the keys and arguments of one lock at a time. KEYS: those of each lock. ARGV: how many keys and how
-- many arguments each has, then the arguments of each.
local all_keys, all_args, KEYS, ARGV = KEYS, ARGV, {}, {}
