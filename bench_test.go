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

// The client's own cost: one goroutine; 64 on two processors, each with its own name; 64 that take turns on one name.
func BenchmarkClient(b *testing.B) {
	alone := func(int64) string { return "a" }
	own := func(n int64) string { return strconv.FormatInt(n, 10) }
	for what, of := range map[string]struct {
		client     *lockport.Client
		name       func(int64) string
		goroutines int
	}{"alone": {thinClient(b), alone, 0}, "memory": {benchClient(b), alone, 0}, "own names": {thinClient(b), own, 32}, "hand-off": {benchClient(b), alone, 64}} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			var goroutines atomic.Int64
			each := func(next func() bool) {
				name := of.name(goroutines.Add(1))
				for next() {
					l, err := of.client.Acquire(b.Context(), name)
					if err == nil {
						err = l.Release(b.Context())
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			}
			if of.goroutines == 0 {
				each(b.Loop)
				return
			}
			b.SetParallelism(of.goroutines)
			b.RunParallel(func(pb *testing.PB) { each(pb.Next) })
		})
	}
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
