package report

import "slices"

// look is how a class is shown: by an icon and a word, so that nobody needs its colour.
type look struct {
	class Class
	// key names its icon and its colours, short is a word for narrow tables, and means what the legend says.
	key, short, means string
}

var looks = []look{
	{Safe, "safe", "safe", "Nobody believed to hold a lock that somebody else held, and it could be had again in time."},
	{Unavailable, "unavailable", "away", "As safe, but nobody could have the lock while the fault lasted."},
	{Costly, "costly", "busy", "Nothing was lost, but who waits keeps the server busy."},
	{Misled, "misled", "wrong", "A caller was told something that was not so."},
	{Stuck, "stuck", "stuck", "Nobody could have the lock any more, long after it should have ended."},
	{Fenced, "fenced", "fenced", "Two believed to hold it at one time; their tokens told them apart, and the late write was refused."},
	{Unsafe, "unsafe", "UNSAFE", "Two believed to hold it at one time, and nothing refused the late write."},
}

// lookOf is how c is shown; of a class that is not known, as it is called.
func lookOf(c Class) look {
	if i := slices.IndexFunc(looks, func(l look) bool { return l.class == c }); i >= 0 {
		return looks[i]
	}
	return look{c, "unavailable", string(c), ""}
}

// severity orders classes from the best; one that is not known is the best of all.
func severity(c Class) int { return slices.Index(Classes(), c) }

// harmed tells that something was seen that should not happen. That nobody can have the lock while the server is away is not harm.
func harmed(c Class) bool { return severity(c) > severity(Unavailable) }
