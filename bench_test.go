package lockport_test

import (
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
func BenchmarkUncontended(b *testing.B) {
	c := benchClient(b)
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
