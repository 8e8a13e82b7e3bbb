package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestValidityCountsFromTheSendingOfTheAnsweredRequest(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		o := h.try(t.Context(), request("a"))
		c := h.accept()
		sent := time.Now()
		time.Sleep(2 * time.Second)
		c.grants(o, "Ta")
		require.Equal(t, sent.Add(handTTL), o.lease.Grant().Until)

		sent = time.Now()
		renewed := begin(func() error {
			until, err := driver.Renew(t.Context(), h.b, o.lease)
			require.Equal(t, sent.Add(handTTL), until)
			return err
		})
		other := h.try(t.Context(), request("b"))
		time.Sleep(time.Second)
		c.grants(renewed, "P")
		c.grants(other, "Tb")
		require.Equal(t, sent.Add(time.Second+handTTL), other.lease.Grant().Until)

		// A Conn that knows an answer itself does not ask the server, so such an answer confirms nothing.
		time.Sleep(time.Second)
		refused := h.try(t.Context(), request("c"))
		c.fails("Tc", driver.ErrUnavailable)
		refused.is(t, driver.ErrUnavailable)
		h.b.mu.Lock()
		defer h.b.mu.Unlock()
		require.Equal(t, other.lease.Grant().Until, h.b.main.until())
	})
}

// A session that has ended leaves room for others.
func TestEndedSessionsDoNotCount(t *testing.T) {
	byHand(t, Options{Blockers: 1, Limit: func() int { return 1 }}, func(t *testing.T, h *hand) {
		o := h.wait(t.Context(), request("a"))
		h.dialed(unavailable(errors.New("too many connections")))
		o.is(t, driver.ErrUnavailable)
		c, _ := h.live(request("b"))
		h.b.Notify(request("c"), func() {})()
		require.Empty(t, c.asked(), "an Await takes a lock too")
	})
}

func TestCallerLeavesBeforeItsTryIsSent(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		ctx, cancel := context.WithCancel(t.Context())
		req := request("a")
		o := h.try(t.Context(), req)
		time.Sleep(MaxDial)
		o.is(t, driver.ErrUnavailable)
		h.dials = nil
		o = h.try(ctx, req)
		cancel()
		o.is(t, driver.ErrUnknown)
		abandoned := h.abandon(t.Context(), req)
		c := h.accept()
		c.answer("Ta")
		abandoned.pending(t)
		c.grants(abandoned, "Fa")
	})
}

func TestCallerLeavesWhileItsTryIsUnderWay(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, h *hand, c *handConn, req driver.Request){
		"nobody asks again": func(t *testing.T, h *hand, c *handConn, req driver.Request) {
			c.answer("Ta")
			c.answer("Fa")
			h.held(c, request("a"))
			h.abandon(t.Context(), req).is(t, nil)
			require.Empty(t, c.asked())
		},
		"the same owner asks again": func(t *testing.T, h *hand, c *handConn, req driver.Request) {
			h.try(t.Context(), req).is(t, driver.ErrUnknown) // it may still be granted, and is then released
			c.answer("Ta")
			h.try(t.Context(), req).is(t, driver.ErrUnknown)
			c.answer("Fa")
			h.held(c, req)
		},
		"another owner asks": func(t *testing.T, h *hand, c *handConn, _ driver.Request) {
			woken := 0
			ctx, cancel := context.WithCancel(t.Context())
			left, other := h.try(ctx, request("a")), h.try(t.Context(), request("a"))
			cancel()
			left.is(t, driver.ErrUnavailable) // on a silent server nobody is known to hold the lock
			stop := h.b.Notify(request("a"), func() { woken++ })
			c.answer("Ta")
			c.answer("Aa")
			c.answer("Fa")
			c.grants(other, "Ta")
			require.Equal(t, 2, woken, "woken once when awaited, and once when released")
			stop()
			c.answer("La")
		},
		"another owner was woken too soon": func(t *testing.T, h *hand, c *handConn, _ driver.Request) {
			woken := 0
			defer h.b.Notify(request("a"), func() { woken++ })()
			c.events.Freed("a") // after the server refused the Try, and before its answer is known
			c.answer("Ta", "a")
			require.Equal(t, 2, woken)
		},
		"and abandons": func(t *testing.T, h *hand, c *handConn, req driver.Request) {
			ctx, cancel := context.WithCancel(t.Context())
			first := h.abandon(ctx, req)
			first.pending(t)
			cancel()
			first.is(t, driver.ErrUnknown)
			second, third := h.abandon(t.Context(), req), h.abandon(t.Context(), req)
			c.answer("Ta")
			second.pending(t)
			c.grants(second, "Fa")
			third.is(t, nil)
		},
		"and the session ends": func(t *testing.T, h *hand, c *handConn, req driver.Request) {
			abandoned := h.abandon(t.Context(), req)
			c.fail(errCut)
			abandoned.pending(t)
			h.accept().grants(abandoned, "Esession-0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			byHand(t, Options{}, func(t *testing.T, h *hand) {
				ctx, cancel := context.WithCancel(t.Context())
				req := request("a")
				o := h.try(ctx, req)
				c := h.accept()
				require.Equal(t, "Ta", c.asked())
				cancel()
				o.is(t, driver.ErrUnknown)
				require.ErrorIs(t, o.err, context.Canceled)
				then(t, h, c, req)
			})
		})
	}
}

func TestKeyIsNotAskedForWhileItIsGivenBack(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		ctx, cancel := context.WithCancel(t.Context())
		r := release(ctx, lease)
		h.try(t.Context(), request("a")).is(t, driver.ErrHeld)
		cancel()
		r.is(t, driver.ErrUnknown)
		h.try(t.Context(), request("a")).is(t, driver.ErrHeld)
		c.grants(release(t.Context(), lease), "Fa")
		require.Empty(t, c.asked(), "a lock was released twice")
		h.held(c, request("a"))
	})
}

func TestErrorsOfOneOp(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		c, lease := h.live(request("a"))
		full := of(driver.ErrRefused, errors.New("the table of locks is full"))
		o := h.try(t.Context(), request("b"))
		c.fails("Tb", full)
		o.is(t, driver.ErrRefused)

		r := release(t.Context(), lease) // no effect: it may be sent again
		c.fails("Fa", full)
		r.is(t, driver.ErrRefused)
		h.frees(c, lease, "a")

		lease = h.held(c, request("a"))
		r = release(t.Context(), lease)
		c.answer("Fa", "a") // the server says that this session did not have it
		r.is(t, driver.ErrLost)
		release(t.Context(), lease).is(t, driver.ErrLost)
		o = h.try(t.Context(), request("b"))
		require.Equal(t, "Tb", c.asked())
		c.ops[0].Err = full
		c.finish(errCut) // the connection ended before the key was certainly released
		o.is(t, driver.ErrUnknown)
	})
}
