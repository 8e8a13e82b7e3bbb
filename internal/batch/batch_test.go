package batch

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// server answers with the requests' numbers as text, after delay, and records the requests.
type server struct {
	delay   time.Duration
	mu      sync.Mutex
	batches [][]int
	ended   int // batches whose context ended first
}

func (s *server) send(ctx context.Context, requests []int) []string {
	s.mu.Lock()
	s.batches = append(s.batches, requests)
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		s.mu.Lock()
		s.ended++
		s.mu.Unlock()
	}
	answers := make([]string, len(requests))
	for i, r := range requests {
		answers[i] = strconv.Itoa(r)
	}
	return answers
}

func TestACrowdSharesBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 10 * time.Millisecond}
		q := &Queue[int, string]{Send: s.send, Limit: 1, Size: 10}
		var callers sync.WaitGroup
		for i := range 31 {
			callers.Go(func() {
				answer, sent, err := q.Do(t.Context(), i)
				if err != nil || !sent || answer != strconv.Itoa(i) {
					t.Errorf("request %d: %q, %t, %v", i, answer, sent, err)
				}
			})
			synctest.Wait()
		}
		callers.Wait()
		require.Len(t, s.batches, 4, "one for the first, and three full ones")
		require.Equal(t, []int{0}, s.batches[0])
		require.Len(t, s.batches[3], 10)
	})
}

func TestRequestsOfOneKeyGoApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 10 * time.Millisecond}
		q := &Queue[int, string]{Send: s.send, Limit: 1, Apart: func(i int) string { return fmt.Sprint(i % 2) }}
		var callers sync.WaitGroup
		for i := range 5 {
			callers.Go(func() { _, _, _ = q.Do(t.Context(), i) })
			synctest.Wait()
		}
		callers.Wait()
		require.Equal(t, [][]int{{0}, {1, 2}, {3, 4}}, s.batches)
	})
}

// A waiting request can be withdrawn with certainty; one on its way cannot. Its batch ends when no caller waits for it.
func TestTheEndOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Hour}
		q := &Queue[int, string]{Send: s.send, Limit: 1, Overdue: time.Hour}
		first, leaveFirst := context.WithCancel(t.Context())
		second, leaveSecond := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			_, sent, err := q.Do(first, 1)
			if !sent || err == nil {
				t.Errorf("the first: %t, %v", sent, err)
			}
		})
		synctest.Wait()
		callers.Go(func() {
			_, sent, err := q.Do(second, 2)
			if sent || err == nil {
				t.Errorf("the second: %t, %v", sent, err)
			}
		})
		synctest.Wait()
		leaveSecond()
		synctest.Wait()
		leaveFirst()
		callers.Wait()
		synctest.Wait()
		require.Equal(t, [][]int{{1}}, s.batches)
		require.Equal(t, 1, s.ended)
	})
}

// A batch without an answer does not block others. Batches that become overdue do not use up the connections.
func TestOverdueBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Hour}
		q := &Queue[int, string]{Send: s.send, Limit: 2, Size: 1}
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() { _, _, _ = q.Do(ctx, i) })
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, s.batches, 2+maxOverdue)
		cancel()
		callers.Wait()
		synctest.Wait()
		require.Equal(t, 0, q.active+q.overdue)
	})
}

// A lone request is sent with its caller's context. Later ones wait for it as for a batch, until it is overdue.
func TestALoneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 30 * time.Millisecond}
		var alone []context.Context
		q := &Queue[int, string]{Send: s.send, Limit: 1, Alone: func(ctx context.Context, request int) string {
			alone = append(alone, ctx)
			time.Sleep(time.Duration(request) * time.Millisecond)
			return "alone"
		}}
		ask := func(request int, want string) {
			answer, sent, err := q.Do(t.Context(), request)
			if err != nil || !sent || answer != want {
				t.Errorf("request %d: %q, %t, %v", request, answer, sent, err)
			}
		}
		for _, takes := range []int{10, 1000} { // one that comes back, and one that is overdue
			var first, crowd sync.WaitGroup
			first.Go(func() { ask(takes, "alone") })
			synctest.Wait()
			start := time.Now()
			for i := range 3 {
				crowd.Go(func() { ask(i, strconv.Itoa(i)) })
			}
			crowd.Wait()
			require.Less(t, time.Since(start), 100*time.Millisecond)
			first.Wait()
		}
		require.Equal(t, []context.Context{t.Context(), t.Context()}, alone)
		require.Len(t, s.batches, 2)
		require.Len(t, s.batches[1], 3)
	})
}
