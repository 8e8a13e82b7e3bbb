//go:build linux || darwin || freebsd

package file_test

import (
	"strconv"
	"testing"

	"github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/driver"
)

// BenchmarkCycle is a claim and its release, without a client, on a name that nobody else wants.
func BenchmarkCycle(b *testing.B) {
	backend := backend(b, b.TempDir())
	req := request("x")
	b.ReportAllocs()
	for b.Loop() {
		release(b, claim(b, backend, req))
	}
}

// BenchmarkHeld is what a claim that is held costs.
func BenchmarkHeld(b *testing.B) {
	backend := backend(b, b.TempDir())
	const many = 1000
	b.ReportAllocs()
	for b.Loop() {
		leases := make([]driver.Lease, many)
		for i := range leases {
			leases[i] = claim(b, backend, request(strconv.Itoa(i)))
		}
		for _, l := range leases {
			release(b, l)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/many/float64(b.N), "µs/lock")
}

// BenchmarkFlock is the bare calls: open, lock, unlock, close.
func BenchmarkFlock(b *testing.B) {
	path := b.TempDir() + "/" + file.FileName("x")
	for b.Loop() {
		if err := flockOnce(path); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLook is an attempt of a claim that waits.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	claim(b, backend(b, dir), request("x"))
	waiter, req := backend(b, dir), queued("x")
	b.ReportAllocs()
	for b.Loop() {
		requireHeld(b, waiter, req)
	}
}
