package crew

import (
	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

// Held is one hold under contention. Its holder believed in it from Got until Ended. One that never came has neither.
type Held struct {
	Client int64          // of all processes
	Asked  faults.Instant // Acquire is about to be called
	Got    faults.Instant // it had returned
	Ended  faults.Instant // Release is about to be called
}

// Unpack are the holds of an answer, whose clients it numbers from first on.
func (a Answer) Unpack(first int) []Held {
	holds := crew.Unpack[Held](a.Holds)
	for i := range holds {
		holds[i].Client += int64(first)
	}
	return holds
}
