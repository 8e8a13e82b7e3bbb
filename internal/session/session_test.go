package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestSessionEnds(t *testing.T) {
	byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
		var told []error
		req := request("held")
		req.Lost = func(err error) { told = append(told, err) }
		c, lease := h.live(req)
		waiting := h.wait(t.Context(), request("waited"))
		blocker := h.accept()
		require.Equal(t, "Twaited!", blocker.asked())
		given := release(t.Context(), h.held(c, request("given back")))
		require.Equal(t, "Fgiven back", c.asked())
		queued := h.try(t.Context(), request("queued"))
		renewal := begin(func() (driver.Lease, error) { _, err := driver.Renew(t.Context(), h.b, lease); return nil, err })
		c.fail(errCut)
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0], driver.ErrLost)
		require.ErrorIs(t, told[0], errCut)
		given.is(t, driver.ErrUnknown) // its Free was under way
		queued.is(t, driver.ErrUnavailable)
		renewal.is(t, driver.ErrUnknown)
		waiting.pending(t)
		_, err := driver.Renew(t.Context(), h.b, lease)
		require.ErrorIs(t, err, driver.ErrLost)
		require.Empty(t, h.dials, "no new session is needed")

		// One request ends everything that may live on at the server.
		a, b := release(t.Context(), lease), h.abandon(t.Context(), req)
		d := h.accept()
		d.answer("Esession-0")
		a.is(t, driver.ErrLost)
		b.is(t, nil)
		require.Empty(t, h.b.orphans)
		require.Empty(t, d.asked())

		blocker.answer("Twaited!")
		waiting.is(t, nil)
		require.Len(t, told, 1)
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

		// While the server is away, the outcome stays unknown.
		r = release(t.Context(), lease)
		h.refuse(unavailable(errors.New("no route")))
		r.is(t, driver.ErrUnavailable)
		abandoned := h.abandon(t.Context(), req)
		h.refuse(unavailable(errors.New("no route")))
		abandoned.is(t, driver.ErrUnavailable)

		// The server answers, but has not ended the session yet.
		r, abandoned = release(t.Context(), lease), h.abandon(t.Context(), req)
		d := h.accept()
		require.Equal(t, "Esession-0", d.asked())
		d.finish(nil)
		r.is(t, driver.ErrUnavailable)
		abandoned.is(t, driver.ErrUnavailable)

		// Other owners may ask the server meanwhile; the same owner may not.
		other := h.try(t.Context(), request("a"))
		d.answer("Ta", "a")
		other.is(t, driver.ErrHeld)
		h.try(t.Context(), req).is(t, driver.ErrUnknown)
		abandoned = h.abandon(t.Context(), req)
		d.answer("Esession-0")
		abandoned.is(t, nil)
		h.held(d, req)
		release(t.Context(), lease).is(t, driver.ErrLost)
		require.Empty(t, d.asked(), "a late release touched the next claim")
	})
}

func TestEndIsAskedForAgainWhenItsSessionEnds(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		req := request("a")
		c, _ := h.live(req)
		c.fail(errCut)
		first := h.abandon(t.Context(), req)
		ctx, cancel := context.WithCancel(t.Context())
		leaves := h.abandon(ctx, req)
		c = h.accept()
		require.Equal(t, "Esession-0", c.asked())
		cancel()
		leaves.is(t, driver.ErrUnknown)
		c.fail(errCut)
		first.is(t, driver.ErrUnavailable)
		second := h.abandon(t.Context(), req)
		h.accept().answer("Esession-0")
		second.is(t, nil)
	})
}

func TestAnswerThatIsOverdueEndsTheSession(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		r := release(t.Context(), lease)
		require.Equal(t, "Fa", c.asked())
		time.Sleep(handTTL - 1)
		r.pending(t)
		time.Sleep(time.Nanosecond)
		r.is(t, driver.ErrUnknown)
		require.ErrorContains(t, r.err, "has not answered for 9s")
		require.True(t, c.closed)
	})
}

func TestBeat(t *testing.T) {
	byHand(t, Options{Beat: time.Second}, func(t *testing.T, h *hand) {
		told := 0
		req := request("a")
		req.Lost = func(error) { told++ }
		c, _ := h.live(req)
		for range 2 {
			time.Sleep(time.Second - 1)
			require.Empty(t, c.asked())
			time.Sleep(time.Nanosecond)
			require.Equal(t, "P", c.asked())
			require.Zero(t, told)
			c.finish(map[int]error{1: errCut}[c.count-2])
		}
		require.Equal(t, 1, told)
	})
}

func TestDialFails(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		for _, class := range []error{driver.ErrUnavailable, driver.ErrRefused} {
			a, b := h.try(t.Context(), request("a")), h.try(t.Context(), request("b"))
			h.refuse(fmt.Errorf("%w: no", class))
			a.is(t, class)
			b.is(t, class)
		}
		a := h.try(t.Context(), request("a"))
		time.Sleep(maxDial - 1)
		a.pending(t)
		time.Sleep(time.Nanosecond)
		a.is(t, driver.ErrUnavailable)
		h.dials = nil
	})
}

func TestIdleSessionIsClosedAndReplaced(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		time.Sleep(handTTL - time.Millisecond) // a session with a lock is neither idle nor stale
		require.False(t, c.closed)
		r := release(t.Context(), lease)
		c.answer("Fa")
		r.is(t, nil)
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
		h.accept().answer("Tb")
		next.is(t, nil)
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

		many := 2*MaxBatch + 1
		var leases []*outcome
		for i := range many {
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

func TestRenewBatch(t *testing.T) {
	byHand(t, Options{Blockers: 2}, func(t *testing.T, h *hand) {
		c, a := h.live(request("a"))
		b := h.held(c, request("b"))
		var blockers []*handConn
		leases := []driver.Lease{a, b}
		for _, name := range []string{"w1", "w2"} {
			o := h.wait(t.Context(), request(name))
			w := h.accept()
			w.answer("T" + name + "!")
			o.is(t, nil)
			blockers = append(blockers, w)
			leases = append(leases, o.lease)
		}
		r := release(t.Context(), b)
		c.answer("Fb")
		r.is(t, nil)
		time.Sleep(time.Second)
		sent := time.Now()
		results := make([]driver.Renewal, len(leases))
		o := begin(func() (driver.Lease, error) { h.b.RenewBatch(t.Context(), leases, results); return nil, nil })
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
		o = begin(func() (driver.Lease, error) { _, err := driver.Renew(ctx, h.b, a); return nil, err })
		cancel()
		o.is(t, driver.ErrUnknown)
		c.answer("P")
		h.b.RenewBatch(t.Context(), nil, nil)
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

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		h.deaf = true
		o := h.try(t.Context(), request("a"))
		c := h.accept()
		require.Equal(t, "Ta", c.asked())
		closed := begin(func() (driver.Lease, error) { return nil, h.b.Close() })
		closed.pending(t)
		c.finish(errCut)
		o.is(t, driver.ErrUnknown)
		closed.is(t, nil)
	})
}

func TestCloseAtEveryMoment(t *testing.T) {
	moments := map[string]func(h *hand) []*outcome{
		"dialling": func(h *hand) []*outcome {
			return []*outcome{h.try(context.Background(), request("a")), h.wait(context.Background(), request("b"))}
		},
		"a try under way, another queued": func(h *hand) []*outcome {
			calls := []*outcome{h.try(context.Background(), request("a"))}
			h.accept()
			return append(calls, h.try(context.Background(), request("b")))
		},
		"a free under way": func(h *hand) []*outcome {
			_, lease := h.live(request("a"))
			return []*outcome{release(context.Background(), lease)}
		},
		"waiting": func(h *hand) []*outcome {
			o := h.wait(context.Background(), request("a"))
			h.accept()
			return []*outcome{o}
		},
		"confirming": func(h *hand) []*outcome {
			o := h.wait(context.Background(), request("a"))
			c := h.accept()
			time.Sleep(handTTL / 4)
			c.answer("Ta!")
			return []*outcome{o}
		},
		"an end under way": func(h *hand) []*outcome {
			req := request("a")
			c, _ := h.live(req)
			c.fail(errCut)
			calls := []*outcome{h.abandon(context.Background(), req), h.abandon(context.Background(), req)}
			h.accept()
			return calls
		},
		"listening": func(h *hand) []*outcome {
			h.b.Notify(request("a"), func() {})
			h.accept()
			h.b.Notify(request("b"), func() {})
			return nil
		},
		"renewing": func(h *hand) []*outcome {
			_, lease := h.live(request("a"))
			return []*outcome{begin(func() (driver.Lease, error) {
				_, err := driver.Renew(context.Background(), h.b, lease)
				return nil, err
			})}
		},
	}
	for name, moment := range moments {
		t.Run(name, func(t *testing.T) {
			byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
				calls := moment(h)
				require.NoError(t, h.b.Close())
				synctest.Wait()
				for _, o := range calls {
					require.True(t, o.over.Load())
					require.Error(t, o.err)
				}
				_, err := h.b.TryAcquire(t.Context(), request("c"))
				require.ErrorIs(t, err, driver.ErrUnavailable)
				_, err = h.b.Wait(t.Context(), request("c"))
				require.ErrorIs(t, err, driver.ErrUnavailable)
				h.b.Notify(request("c"), nil)()
				require.NoError(t, h.b.Close())
			})
		})
	}
}
