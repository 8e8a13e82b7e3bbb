package articles

import (
	"time"

	"github.com/lockport/lockport/driver"
)

// beliefs are locks whose holders believe for too long.
var beliefs = []Exhibit{
	{
		Name: "nobody-tells-the-holder", Hazard: "H6", Article: "000, 001, 003, 004",
		Is:       "the lock ends with its expiry, nobody renews it, and its holder, who was told of no deadline, believes in it for ever",
		CaughtBy: []string{"silence/renewal", "silence/frozen", "silence/gone", "crash/stopped-holder"},
		Sees: []string{"the holder has not released the name, yet another claim was granted", "granted the name to another", "granted the name to another",
			"its first Valid said true"},
		one: func(l *lock) driver.Backend {
			l.until = func(time.Time, time.Duration) time.Time { return time.Time{} }
			return l
		},
	},
}
