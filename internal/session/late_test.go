package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// TestAnswerAfterTheEnd has a session be ended for us while an answer is on its way: the lock was granted, and is gone or going.
func TestAnswerAfterTheEnd(t *testing.T) {
	byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
		h.deaf = true
		ctx, cancel := context.WithCancel(t.Context())
		req := request("a")
		req.Lost = func(error) { t.Error("told of a claim that was not granted") }
		o := h.wait(ctx, req)
		c := h.accept()
		cancel()
		o.is(t, driver.ErrUnknown)
		abandoned := h.abandon(t.Context(), req)
		abandoned.pending(t)
		c.answer("Ta!")
		abandoned.pending(t)
		h.accept().answer("Esession-0")
		abandoned.is(t, nil)
	})
}

func TestLostIsNotToldOfWhatNobodyGot(t *testing.T) {
	byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
		req := request("a")
		req.Lost = func(error) { t.Error("told of a claim that was not granted") }
		o := h.wait(t.Context(), req)
		c := h.accept()
		time.Sleep(handTTL / 4)
		c.answer("Ta!")
		require.Equal(t, "P", c.asked())
		c.fail(errCut)
		o.is(t, driver.ErrUnknown)
	})
}

func TestRenewalOfWhatIsGivenBackMeanwhile(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		o := begin(func() (driver.Lease, error) { _, err := driver.Renew(t.Context(), h.b, lease); return nil, err })
		require.Equal(t, "P", c.asked())
		r := release(t.Context(), lease)
		c.answer("P")
		o.is(t, driver.ErrUnknown)
		c.answer("Fa")
		r.is(t, nil)
	})
}

// sticky is a Server whose Dial and Do return later than they must.
type sticky struct {
	instant
	release chan struct{} // what Dial waits for
	inside  atomic.Int32
	most    atomic.Int32
}

func (s *sticky) Dial(context.Context, string, Events) (Conn, error) {
	<-s.release
	return s, nil
}

func (s *sticky) Do(ctx context.Context, ops []*Op) error {
	s.most.Store(max(s.most.Load(), s.inside.Add(1)))
	defer s.inside.Add(-1)
	time.Sleep(time.Millisecond)
	return s.instant.Do(ctx, ops)
}

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sticky{release: make(chan struct{})}
		b := New(s, Options{TTL: handTTL, Layout: plainLayout})
		o := begin(func() (driver.Lease, error) { return b.TryAcquire(t.Context(), request("a")) })
		closed := begin(func() (driver.Lease, error) { return nil, b.Close() })
		o.is(t, driver.ErrUnavailable)
		closed.pending(t)
		close(s.release)
		closed.is(t, nil)
	})
}

func TestOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sticky{release: make(chan struct{})}
		close(s.release)
		b := New(s, Options{TTL: handTTL, Layout: plainLayout})
		var workers sync.WaitGroup
		for i := range 8 {
			workers.Go(func() {
				for range 20 {
					lease, err := b.TryAcquire(t.Context(), request(fmt.Sprint(i)))
					if err == nil {
						err = lease.Release(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
		require.EqualValues(t, 1, s.most.Load(), "requests at the same time")
		require.NoError(t, b.Close())
	})
}
