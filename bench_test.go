package lockport_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
)

func benchClient(b *testing.B) *lockport.Client {
	c, err := memory.New(memory.Options{}, lockport.Logger(nil))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return c
}

// What the client costs beside the server: an acquire and release on the memory backend.
func BenchmarkUncontended(b *testing.B) { benchCycle(b, benchClient(b)) }

// What the client costs alone: the same with a backend that keeps nothing.
func BenchmarkAlone(b *testing.B) { benchCycle(b, thinClient(b)) }

func benchCycle(b *testing.B, c *lockport.Client) {
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(b.Context(), "a")
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// The same for 64 goroutines on two processors, each with its own name: what the client's mutex costs.
func BenchmarkOwnNames(b *testing.B) {
	c := thinClient(b)
	b.ReportAllocs()
	b.SetParallelism(32)
	var names atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		name := strconv.FormatInt(names.Add(1), 10)
		for pb.Next() {
			l, err := c.Acquire(b.Context(), name)
			if err != nil {
				b.Error(err)
				return
			}
			if err := l.Release(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// 64 goroutines take turns on one name: hand-offs inside the process.
func BenchmarkHandOff(b *testing.B) {
	c := benchClient(b)
	b.ReportAllocs()
	b.SetParallelism(64)
	var holds atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := c.Acquire(b.Context(), "a")
			if err != nil {
				b.Error(err)
				return
			}
			holds.Add(1)
			if err := l.Release(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkValid(b *testing.B) {
	l, err := benchClient(b).Acquire(b.Context(), "a")
	require.NoError(b, err)
	for b.Loop() {
		if !l.Valid() {
			b.Fatal("lost")
		}
	}
}
