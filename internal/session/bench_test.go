package session

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// instant is a Server that says yes at once, or, with a latency, on the caller's goroutine after that.
type instant struct {
	latency  time.Duration
	requests atomic.Int64
	ops      atomic.Int64
}

func (s *instant) Dial(context.Context, string, Events) (Conn, error) { return s, nil }
func (s *instant) ID() string                                         { return "instant" }
func (s *instant) Silence() time.Duration                             { return time.Hour }
func (s *instant) Close()                                             {}
func (s *instant) Wait(_ context.Context, op *Op, done func(error))   { op.OK = true; done(nil) }

func (s *instant) Do(_ context.Context, ops []*Op, done func(error)) {
	s.requests.Add(1)
	s.ops.Add(int64(len(ops)))
	if s.latency > 0 {
		for start := time.Now(); time.Since(start) < s.latency; {
			runtime.Gosched()
		}
	}
	for _, op := range ops {
		op.OK, op.Token = true, 1
	}
	done(nil)
}

func newInstant(s *instant) *Backend {
	return New(s, Options{TTL: time.Hour, Layout: plainLayout})
}

// BenchmarkUncontended is what the engine adds to two requests of the server.
func BenchmarkUncontended(b *testing.B) {
	e := newInstant(new(instant))
	ctx := context.Background()
	req := request("a")
	req.TTL = time.Hour
	b.ReportAllocs()
	for b.Loop() {
		lease, err := e.TryAcquire(ctx, req)
		if err == nil {
			err = lease.Release(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMany is that of 64 goroutines on their own names, on a server that takes 50 µs for each request.
func BenchmarkMany(b *testing.B) {
	s := &instant{latency: 50 * time.Microsecond}
	e := newInstant(s)
	b.ReportAllocs()
	var workers sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	for i := range 64 {
		req := request(fmt.Sprint(i))
		req.TTL = time.Hour
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				lease, err := e.TryAcquire(context.Background(), req)
				if err == nil {
					err = lease.Release(context.Background())
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	b.ReportMetric(float64(s.ops.Load())/float64(s.requests.Load()), "ops/request")
}

// TestCost holds what a cycle may allocate: the claim, and nothing that grows with use.
func TestCost(t *testing.T) {
	e := newInstant(new(instant))
	req := request("a")
	req.TTL = time.Hour
	allocs := testing.AllocsPerRun(1000, func() {
		lease, err := e.TryAcquire(context.Background(), req)
		require.NoError(t, err)
		require.NoError(t, lease.Release(context.Background()))
	})
	require.LessOrEqual(t, allocs, 1.0)
	require.NoError(t, e.Close())
}
