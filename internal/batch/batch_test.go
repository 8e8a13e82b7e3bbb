package batch

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// server answers with the requests' numbers as text, after delay, and records the requests.
type server struct {
	delay   time.Duration
	mu      sync.Mutex
	batches [][]int
	ended   atomic.Int32 // batches whose context ended first
}

func (s *server) send(ctx context.Context, requests []int) []string {
	s.mu.Lock()
	s.batches = append(s.batches, requests)
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		s.ended.Add(1)
	}
	answers := make([]string, len(requests))
	for i, r := range requests {
		answers[i] = strconv.Itoa(r)
	}
	return answers
}

// ask sends request, and checks its answer. None is wanted if ctx ends first: then request was sent if wantSent.
func ask(t *testing.T, ctx context.Context, q *Queue[int, string], request int, want string, wantSent bool) {
	answer, sent, err := q.Do(ctx, request)
	assert.Equal(t, []any{want, wantSent, want == ""}, []any{answer, sent, err != nil}, "request %d", request)
}

func TestACrowdSharesBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 10 * time.Millisecond}
		q := &Queue[int, string]{Send: s.send}
		var callers sync.WaitGroup
		for i := range limit + 3*size {
			callers.Go(func() { ask(t, t.Context(), q, i, strconv.Itoa(i), true) })
			synctest.Wait()
		}
		callers.Wait()
		require.Len(t, s.batches, limit+3, "one for each of the first, and three full ones")
		require.Equal(t, [][]int{{0}, {1}}, s.batches[:limit])
		require.Len(t, s.batches[limit+2], size)
	})
}

func TestRequestsOfOneKeyGoApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 10 * time.Millisecond}
		q := &Queue[int, string]{Send: s.send, Apart: func(i int) string { return fmt.Sprint(i % 2) }}
		var callers sync.WaitGroup
		for i := range 6 {
			callers.Go(func() { _, _, _ = q.Do(t.Context(), i) })
			synctest.Wait()
		}
		callers.Wait()
		require.ElementsMatch(t, [][]int{{0}, {1}, {2, 3}, {4, 5}}, s.batches)
	})
}

// A waiting request can be withdrawn with certainty; one on its way cannot. Its batch ends when no caller waits for it.
func TestTheEndOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Hour}
		q := &Queue[int, string]{Send: s.send}
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range limit {
			callers.Go(func() { ask(t, first, q, 1, "", true) })
		}
		synctest.Wait()
		callers.Go(func() { ask(t, second, q, 2, "", false) })
		synctest.Wait()
		leaveSecond()
		synctest.Wait()
		leaveFirst()
		callers.Wait()
		synctest.Wait()
		ask(t, first, q, 3, "", false)
		require.Equal(t, [][]int{{1}, {1}}, s.batches)
		require.EqualValues(t, limit, s.ended.Load())
	})
}

// A batch without an answer does not block others. Batches that become overdue do not use up the connections.
func TestOverdueBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Hour}
		q := &Queue[int, string]{Send: s.send}
		ctx, cancel := context.WithCancel(t.Context())
		early, leave := context.WithTimeout(ctx, time.Second)
		defer leave()
		var callers sync.WaitGroup
		for i := range 20 * size {
			callers.Go(func() { _, _, _ = q.Do([]context.Context{ctx, early}[i/limit%2], i) })
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, s.batches, most)
		require.Zero(t, s.ended.Load(), "callers still wait for each batch")
		cancel()
		callers.Wait()
		synctest.Wait()
		require.Empty(t, q.underWay)
	})
}

// Lone requests are sent with their callers' contexts. Later ones wait for them as for batches, until they are overdue.
func TestALoneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 30 * time.Millisecond}
		var alone []context.Context
		q := &Queue[int, string]{Send: s.send, Alone: func(ctx context.Context, request int) string {
			alone = append(alone, ctx)
			time.Sleep(time.Duration(request) * time.Millisecond)
			return "alone"
		}}
		for _, takes := range []int{10, 1000} { // one that comes back, and one that is overdue
			var first, crowd sync.WaitGroup
			for range limit {
				first.Go(func() { ask(t, t.Context(), q, takes, "alone", true) })
				synctest.Wait()
			}
			start := time.Now()
			for i := range 3 {
				crowd.Go(func() { ask(t, t.Context(), q, i, strconv.Itoa(i), true) })
			}
			crowd.Wait()
			require.Less(t, time.Since(start), 100*time.Millisecond)
			first.Wait()
		}
		require.Len(t, alone, 2*limit)
		require.Equal(t, t.Context(), alone[0])
		require.Empty(t, q.underWay, "others may go")
		require.Len(t, s.batches, 2)
		require.Len(t, s.batches[1], 3)
	})
}
