package report

import "slices"

// Class is what was seen of a hazard, or is stated of a fault.
type Class string

// The classes, from the best to the worst.
const (
	// Safe: no two clients held the lock at once, and it became free in time.
	Safe Class = "safe"
	// Unavailable: the same, but nobody could get the lock while the fault lasted.
	Unavailable Class = "unavailable"
	// Costly: nothing was lost, but waiting clients keep the server busy.
	Costly Class = "hammers the server"
	// Misled: a caller got a wrong answer, such as a released lock that was not released.
	Misled Class = "wrong answer"
	// Stuck: nobody could get the lock any more, long after it should have ended.
	Stuck Class = "locked for ever"
	// Fenced: two clients believed they held the lock. Their tokens told them apart, and the older client's late write was refused.
	Fenced Class = "unsafe but fenced"
	// Unsafe: two clients believed they held the lock, and the older client's late write was not refused.
	Unsafe Class = "unsafe"
)

// look is how a class is shown: with an icon and a word, so that nobody depends on its color.
type look struct {
	Class Class
	// Key names its icon and colors. Short is a word for narrow tables.
	Key, Short string
	Means      string // explains it
}

var looks = []look{
	{Safe, "safe", "safe", "No two clients believed they held the lock at once, and it became free in time."},
	{Unavailable, "unavailable", "away", "As safe, but nobody could get the lock while the fault lasted."},
	{lateLanded, "safe", "*", "As its class says, but an older holder's write landed after a newer one had the lock."},
	{Costly, "costly", "busy", "Nothing was lost, but waiting clients keep the server busy."},
	{Misled, "misled", "wrong", "A caller got a wrong answer."},
	{Stuck, "stuck", "stuck", "Nobody could get the lock any more, long after it should have ended."},
	{Fenced, "fenced", "fenced", "Two clients believed they held the lock; tokens told them apart, and the late write was refused."},
	{Unsafe, "unsafe", "UNSAFE", "Two clients believed they held the lock, and the late write was not refused."},
}

// lateLanded is shown beside a class that does not imply it.
const lateLanded Class = "late write landed"

// Classes returns all classes, from best to worst.
func Classes() (all []Class) {
	for _, l := range looks {
		if l.Class != lateLanded {
			all = append(all, l.Class)
		}
	}
	return all
}

// lookOf returns the look of c. An unknown class is shown by its name.
func lookOf(c Class) look {
	if i := slices.IndexFunc(looks, func(l look) bool { return l.Class == c }); i >= 0 {
		return looks[i]
	}
	return look{c, "unavailable", string(c), ""}
}

// Compare orders classes from best to worst. The empty class is the best.
func Compare(a, b Class) int { return slices.Index(Classes(), a) - slices.Index(Classes(), b) }

// Worse returns the worse of two classes.
func Worse(a, b Class) Class { return slices.MaxFunc([]Class{a, b}, Compare) }

// IsSafe says that there was no harm. A lock that is unavailable while the server is away is no harm.
func (c Class) IsSafe() bool { return Compare(c, Unavailable) <= 0 }
