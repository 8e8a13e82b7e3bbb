package crew

import (
	"encoding/binary"

	"github.com/lockport/lockport/faults"
)

// Held is one hold under contention. Its holder believed in it from Got until Ended. One that never came has neither.
type Held struct {
	Client int64          // of all processes
	Asked  faults.Instant // Acquire is about to be called
	Got    faults.Instant // it had returned
	Ended  faults.Instant // Release is about to be called
}

// pack makes bytes of holds: a turn of contention has hundreds of thousands.
func pack(clients [][]Held) []byte {
	var b []byte
	for _, holds := range clients {
		b, _ = binary.Append(b, binary.LittleEndian, holds) // it knows the size of a Held
	}
	return b
}

// Unpack are the holds of an answer, whose clients it numbers from first on.
func (a Answer) Unpack(first int) []Held {
	holds := make([]Held, len(a.Holds)/binary.Size(Held{}))
	_, _ = binary.Decode(a.Holds, binary.LittleEndian, holds)
	for i := range holds {
		holds[i].Client += int64(first)
	}
	return holds
}
