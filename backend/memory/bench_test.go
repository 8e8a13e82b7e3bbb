package memory_test

import (
	"testing"

	"github.com/lockport/lockport/backend/memory"
)

// BenchmarkCycle is a claim and its release, without a client, on a name that nobody else wants.
func BenchmarkCycle(b *testing.B) {
	backend := memory.NewBackend(memory.Options{})
	req := request("x", "a")
	b.ReportAllocs()
	for b.Loop() {
		release(b, claim(b, backend, req))
	}
}
