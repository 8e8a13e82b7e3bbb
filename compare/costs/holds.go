package costs

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"github.com/lockport/lockport/faults"
)

// hold is one hold of a lock under contention. Its holder believed in it from Got until Ended.
type hold struct {
	Client int64 // of all processes
	Asked  faults.Instant
	Got    faults.Instant // Acquire had returned
	Ended  faults.Instant // Release is about to be called
}

// overlaps counts the holds that began before an earlier one had ended, and puts holds in the order in which they began. A correct lock has none: Release
// is called before the server can grant the lock to the next, and that one's Acquire returns after.
func overlaps(holds []hold) int {
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Or(cmp.Compare(a.Got, b.Got), cmp.Compare(a.Ended, b.Ended)) })
	n, until := 0, faults.Instant(0)
	for _, h := range holds {
		if h.Got < until {
			n++
		}
		until = max(until, h.Ended)
	}
	return n
}

// numbered are the holds of a process, whose clients it numbers from first on.
func numbered(holds []hold, first int) []hold {
	for i := range holds {
		holds[i].Client += int64(first)
	}
	return holds
}

// random is 32 hexadecimal digits that nobody else has.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
