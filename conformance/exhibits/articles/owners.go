package articles

import (
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/lockport/lockport/driver"
)

// owners are locks that cannot tell one holder from another.
var owners = []Exhibit{
	{
		Name: "four-digit-owner", Hazard: "H5", Article: "004",
		Is: "the owner is one of 9,001 numbers, and workers that were forked after the generator was seeded draw the same ones: " +
			"a late release ends the lock of whoever drew the same number",
		CaughtBy: []string{"ownership/late-release", "ownership/late-abandon", "ownership/late-renewal"},
		Sees:     []string{notLost, grantedAgain, notLost},
		one: func(l *lock) driver.Backend {
			l.value = drawn(rand.New(rand.NewPCG(1, 2)))
			return l
		},
	},
	{
		Name: "thread-id-owner", Hazard: "H5", Article: "003",
		Is:       "the owner is the id of a thread, which counts from 1 in every process",
		CaughtBy: []string{"ownership/late-release", "ownership/late-abandon", "ownership/late-renewal", "ownership/abandon-of-others"},
		Sees:     []string{notLost, grantedAgain, notLost, grantedAgain},
		one: func(l *lock) driver.Backend {
			l.value = func(string) string { return "1" } // all that a driver does is done by one thread
			return l
		},
	},
}

// drawn gives every owner a number of four digits (or 10,000), and the same one when it is asked again.
func drawn(dice *rand.Rand) func(owner string) string {
	var mu sync.Mutex
	numbers := make(map[string]string)
	return func(owner string) string {
		mu.Lock()
		defer mu.Unlock()
		n, ok := numbers[owner]
		if !ok {
			n = strconv.Itoa(1000 + dice.IntN(9001))
			numbers[owner] = n
		}
		return n
	}
}
