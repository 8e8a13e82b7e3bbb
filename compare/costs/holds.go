package costs

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
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

// pack makes bytes of numbers: a turn of contention has hundreds of thousands of holds.
func pack(numbers []int64) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, numbers) // it knows the size of int64
	return b
}

func unpack(b []byte) []int64 {
	numbers := make([]int64, len(b)/8)
	_, _ = binary.Decode(b, binary.LittleEndian, numbers)
	return numbers
}

func packHolds(clients [][]hold) []byte {
	var numbers []int64
	for _, holds := range clients {
		for _, h := range holds {
			numbers = append(numbers, h.Client, int64(h.Asked), int64(h.Got), int64(h.Ended))
		}
	}
	return pack(numbers)
}

// unpackHolds numbers the clients of a process from first on.
func unpackHolds(b []byte, first int) []hold {
	numbers := unpack(b)
	holds := make([]hold, len(numbers)/4)
	for i := range holds {
		n := numbers[4*i:]
		holds[i] = hold{n[0] + int64(first), faults.Instant(n[1]), faults.Instant(n[2]), faults.Instant(n[3])}
	}
	return holds
}

// random is 32 hexadecimal digits that nobody else has.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
