-- Starts a script that runs the script for one lock on many locks, one after another. one.lua and each.lua enclose the latter as the
-- function one, which sees the keys and arguments of one lock at a time. KEYS: those of each lock. ARGV: the numbers of keys and of
-- arguments per lock, then the arguments of each.
local all_keys, all_args, KEYS, ARGV = KEYS, ARGV, {}, {}
