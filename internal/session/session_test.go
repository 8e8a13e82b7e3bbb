package session

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestSessionEnds(t *testing.T) {
	byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
		var told []error
		req := request("held")
		req.Lost = func(err error) { told = append(told, err) }
		c, lease := h.live(req)
		woken := 0
		h.b.Notify(request("waited"), func() { woken++ })
		c.answer("Awaited")
		waiting := h.wait(t.Context(), request("waited"))
		blocker := h.accept()
		require.Equal(t, "Twaited!", blocker.asked())
		given := release(t.Context(), h.held(c, request("given back")))
		require.Equal(t, "Fgiven back", c.asked())
		queued := h.try(t.Context(), request("queued"))
		renewal := h.renew(t.Context(), lease)
		c.fail(errCut)
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], driver.ErrLost)
		require.ErrorIs(t, told[0], errCut)
		given.is(t, driver.ErrUnknown) // its Free was under way
		queued.is(t, driver.ErrUnavailable)
		renewal.is(t, driver.ErrUnknown)
		waiting.pending(t)
		require.ErrorIs(t, peer.ErrOf(driver.Renew(t.Context(), h.b, lease)), driver.ErrLost)
		require.Empty(t, h.dials, "no new session is needed")

		// One request ends everything that may live on at the server.
		a, b := release(t.Context(), lease), h.abandon(t.Context(), req)
		d := h.accept()
		d.answer("Esession-0")
		a.is(t, driver.ErrLost)
		b.is(t, nil)
		require.Len(t, h.b.table, 1, "only the wait is left")
		d.answer("Awaited")
		require.Empty(t, d.asked())

		blocker.grants(waiting, "Twaited!")
		require.Len(t, told, 1)
		require.Empty(t, blocker.asked(), "only the main session awaits")
		woken = 0
		blocker.fail(errCut)
		require.Equal(t, 1, woken, "only the server knows whether the key is free")
	})
}

// A server that became read-only ends its holds: a claim or a renewal tells. The next claim dials.
func TestReadOnlyServer(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		for _, asks := range []string{"Ta", "P"} {
			told := 0
			req := request("held")
			req.Lost = func(error) { told++ }
			c, lease := h.live(req)
			o, class := h.try(t.Context(), request("a")), driver.ErrUnavailable
			if asks == "P" {
				c.answer("Ta", "a")
				o, class = h.renew(t.Context(), lease), driver.ErrUnknown
			}
			queued := h.try(t.Context(), request("b"))
			c.fails(asks, ErrReadOnly)
			o.is(t, class)
			queued.is(t, driver.ErrUnavailable)
			require.Equal(t, 1, told)
			require.True(t, c.closed)
			abandoned := h.abandon(t.Context(), req)
			d := h.accept()
			d.grants(abandoned, "E"+c.id)
			d.fail(errCut)
		}
	})
}

func TestReleaseWhoseAnswerIsLost(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		req := request("a")
		c, lease := h.live(req)
		r := release(t.Context(), lease)
		require.Equal(t, "Fa", c.asked())
		c.fail(errCut)
		r.is(t, driver.ErrUnknown)

		// While the server is away, or refuses, the outcome stays unknown.
		ctx, cancel := context.WithCancel(t.Context())
		abandoned := h.abandon(ctx, req)
		cancel()
		abandoned.is(t, driver.ErrUnknown)
		for answer, class := range map[error]error{driver.ErrUnavailable: driver.ErrUnavailable, ErrReadOnly: driver.ErrUnavailable, driver.ErrRefused: driver.ErrRefused} {
			r, abandoned = release(t.Context(), lease), h.abandon(t.Context(), req)
			h.dialed(answer)
			r.is(t, class)
			abandoned.is(t, class)
		}

		// The server may not end the session, or has not ended it yet.
		r, abandoned = release(t.Context(), lease), h.abandon(t.Context(), req)
		d := h.accept()
		d.fails("Esession-0", driver.ErrRefused)
		r.is(t, driver.ErrUnavailable)
		abandoned.is(t, driver.ErrUnavailable)
		r, abandoned = release(t.Context(), lease), h.abandon(t.Context(), req)
		require.Equal(t, "Esession-0", d.asked())
		d.finish(nil)
		r.is(t, driver.ErrUnavailable)
		abandoned.is(t, driver.ErrUnavailable)

		// Other owners may ask the server meanwhile; the same owner may not.
		other := h.try(t.Context(), request("a"))
		d.answer("Ta", "a")
		other.is(t, driver.ErrHeld)
		h.try(t.Context(), req).is(t, driver.ErrUnknown)
		r, abandoned = release(t.Context(), lease), h.abandon(t.Context(), req)
		d.grants(abandoned, "Esession-0")
		r.is(t, driver.ErrLost)
		h.held(d, req)
		release(t.Context(), lease).is(t, driver.ErrLost)
		require.Empty(t, d.asked(), "a late release touched the next claim")
		d.fail(errCut)
		require.NoError(t, h.b.Close())
		h.abandon(t.Context(), req).is(t, driver.ErrUnavailable)
	})
}

func TestAnswerThatIsOverdueEndsTheSession(t *testing.T) {
	byHand(t, Options{Blockers: 2}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		waits := h.wait(t.Context(), request("w"))
		h.accept()
		r := release(t.Context(), lease)
		require.Equal(t, "Fa", c.asked())
		later := h.wait(t.Context(), request("x"))
		h.accept()
		time.Sleep(handTTL - redialPause - 1)
		r.pending(t)
		time.Sleep(time.Nanosecond)
		r.is(t, driver.ErrUnknown)
		waits.is(t, driver.ErrUnknown)
		later.pending(t) // it may wait for another server
		require.ErrorContains(t, r.err, "has not answered for 9s")
		require.True(t, c.closed)
		require.ErrorIs(t, peer.ErrOf(driver.Renew(t.Context(), h.b, lease)), driver.ErrLost)

		h.deaf = true
		o := h.try(t.Context(), request("b"))
		c = h.accept()
		time.Sleep(handTTL)
		c.answer("Tb") // the server may free it at any time
		o.is(t, driver.ErrUnknown)
	})
}

func TestBeat(t *testing.T) {
	byHand(t, Options{Beat: time.Second}, func(t *testing.T, h *hand) {
		told := 0
		req := request("a")
		req.Lost = func(error) { told++ }
		c, lease := h.live(req)
		h.frees(c, lease, "a")
		time.Sleep(handTTL / 2) // it is not pinged without locks, nor closed yet
		h.held(c, req)
		for range 2 {
			time.Sleep(time.Second - 1)
			require.Empty(t, c.asked())
			time.Sleep(time.Nanosecond)
			require.Equal(t, "P", c.asked())
			require.Zero(t, told)
			c.finish(map[int]error{1: errCut}[c.count-4])
		}
		require.Equal(t, 1, told)
	})
}

func TestIdleSessionIsClosedAndReplaced(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		time.Sleep(handTTL - time.Millisecond) // a session with a lock is neither idle nor stale
		require.False(t, c.closed)
		h.frees(c, h.held(c, request("b")), "b")
		h.frees(c, lease, "a")
		time.Sleep(handTTL * 3 / 4)
		synctest.Wait()
		require.True(t, c.closed, "idle for most of the TTL")
		require.Empty(t, h.dials)

		// A session that the server certainly has not kept is not used or trusted any more.
		told := 0
		req := request("a")
		req.Lost = func(error) { told++ }
		c, _ = h.live(req)
		time.Sleep(handTTL + time.Millisecond)
		require.Zero(t, told)
		next := h.try(t.Context(), request("b"))
		require.Equal(t, 1, told)
		require.True(t, c.closed)
		h.accept().grants(next, "Tb")
	})
}

func TestRequestsGoTogether(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		var all []*outcome
		for i := range 3 {
			all = append(all, h.try(t.Context(), request(fmt.Sprint(i))))
		}
		c := h.accept()
		c.answer("T0 T1 T2", "1")
		all[0].is(t, nil)
		all[1].is(t, driver.ErrHeld)
		all[2].is(t, nil)

		var leases []*outcome
		for i := range 2*MaxBatch + 1 {
			leases = append(leases, h.try(t.Context(), request(fmt.Sprint("m", i))))
		}
		before := c.count
		for c.asked() != "" {
			c.answer(c.asked())
		}
		require.Equal(t, 1+2, c.count-before+1, "one request with a single op, then full ones")
		for _, o := range leases {
			o.is(t, nil)
		}
	})
}

// Ops that the server carries out one by one, or that take long, do not keep a renewal waiting.
func TestRenewalGoesFirst(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		for permits, waiting := range map[int]int{2: 2 * MaxBatch, 0: 2} {
			var tries []*outcome
			for i := range waiting {
				tries = append(tries, h.try(t.Context(), peer.Permit(request(fmt.Sprint(i)), permits)))
			}
			renewed, again := h.renew(t.Context(), lease), h.renew(t.Context(), lease)
			c.finish(nil)          // the first try, which went alone
			c.grants(renewed, "P") // one for both
			again.is(t, nil)
			for c.asked() != "" {
				require.True(t, permits == 0 || len(c.ops) == 1, "a permit is tried alone")
				c.finish(nil)
			}
			for _, try := range tries {
				try.is(t, driver.ErrHeld)
			}
		}
	})
}

func TestRenewBatch(t *testing.T) {
	byHand(t, Options{Blockers: 2}, func(t *testing.T, h *hand) {
		c, a := h.live(request("a"))
		b := h.held(c, request("b"))
		var blockers []*handConn
		leases := []driver.Lease{a, b}
		for _, name := range []string{"w1", "w2"} {
			o := h.wait(t.Context(), request(name))
			w := h.accept()
			w.grants(o, "T"+name+"!")
			blockers = append(blockers, w)
			leases = append(leases, o.lease)
		}
		h.frees(c, b, "b")
		time.Sleep(time.Second)
		sent := time.Now()
		results := make([]driver.Renewal, len(leases))
		o := begin(func() error { h.b.RenewBatch(t.Context(), leases, results); return nil })
		c.answer("P")
		o.pending(t)
		blockers[0].answer("P")
		blockers[1].fail(errCut)
		o.is(t, nil)
		require.Equal(t, driver.Renewal{Until: sent.Add(handTTL)}, results[0])
		require.ErrorIs(t, results[1].Err, driver.ErrLost)
		require.Equal(t, driver.Renewal{Until: sent.Add(handTTL)}, results[2])
		require.ErrorIs(t, results[3].Err, driver.ErrUnknown)

		ctx, cancel := context.WithCancel(t.Context())
		o = h.renew(ctx, a)
		cancel()
		o.is(t, driver.ErrUnknown)
		c.answer("P")
		o, released := h.renew(t.Context(), a), release(t.Context(), a)
		c.answer("P")
		o.is(t, driver.ErrUnknown)
		c.grants(released, "Fa")
		h.b.RenewBatch(t.Context(), nil, nil)
	})
}
