package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestWaitIsConfirmed(t *testing.T) {
	byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
		o := h.wait(t.Context(), request("a"))
		c := h.accept()
		time.Sleep(5 * handTTL)
		require.False(t, c.closed, "a waiting session is not idle")
		c.answer("Ta!")
		o.pending(t)
		sent := time.Now()
		time.Sleep(time.Second)
		c.grants(o, "P")
		require.Equal(t, driver.Grant{Token: 101, Until: sent.Add(handTTL)}, o.lease.Grant())
		require.Empty(t, h.dials, "the main session was not needed")

		h.wait(t.Context(), request("b")).is(t, driver.ErrHeld) // no session is left
		h.wait(t.Context(), request("a")).is(t, driver.ErrHeld)
		h.try(t.Context(), request("a")).is(t, driver.ErrHeld)
		h.frees(c, o.lease, "a")
		time.Sleep(time.Second)
		o = h.wait(t.Context(), request("b")) // the session is there already
		sent = time.Now()
		time.Sleep(handTTL/4 - 1)
		c.grants(o, "Tb!") // a short wait confirms the session
		require.Equal(t, sent.Add(handTTL), o.lease.Grant().Until)
	})
}

// Whatever ends a wait, its outcome is unknown until the server has ended its session. Nobody is told of a loss.
func TestWaitWhoseOutcomeIsUnknown(t *testing.T) {
	for name, end := range map[string]func(h *hand, c *handConn, cancel func(), req driver.Request){
		"given up":  func(_ *hand, _ *handConn, cancel func(), _ driver.Request) { cancel() },
		"abandoned": func(h *hand, _ *handConn, _ func(), req driver.Request) { h.abandon(context.Background(), req) },
		"cut":       func(_ *hand, c *handConn, _ func(), _ driver.Request) { c.fail(errCut) },
	} {
		for _, answer := range []string{"", "before", "after"} { // when the server grants it
			if name != "given up" && answer == "after" {
				continue
			}
			t.Run(name+" "+answer, func(t *testing.T) {
				byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
					h.deaf = answer == "after"
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					req := request("a")
					req.Lost = func(error) { t.Error("Lost was called for a claim that was not granted") }
					o := h.wait(ctx, req)
					c := h.accept()
					require.Equal(t, "Ta!", c.asked())
					if answer == "before" {
						time.Sleep(handTTL / 4)
						c.answer("Ta!")
						require.Equal(t, "P", c.asked())
					}
					end(h, c, cancel, req)
					o.is(t, driver.ErrUnknown)
					require.Equal(t, answer != "after", c.closed)
					h.wait(t.Context(), req).is(t, driver.ErrUnknown)       // the same owner: its earlier claim must end first
					h.wait(t.Context(), request("b")).is(t, driver.ErrHeld) // a session that may still exist counts
					abandoned := h.abandon(t.Context(), req)
					abandoned.pending(t)
					if answer == "after" {
						c.answer("Ta!")
						abandoned.pending(t)
					}
					h.accept().grants(abandoned, "Esession-0")
					h.wait(t.Context(), request("b")).pending(t)
					h.accept()
				})
			})
		}
	}
}

func TestNotify(t *testing.T) {
	byHand(t, Options{}, func(t *testing.T, h *hand) {
		require.Equal(t, &driver.HeldError{Poll: time.Second}, h.b.errHeld, "beside notifications")
		require.Equal(t, &driver.HeldError{Poll: time.Millisecond}, New(Options{TTL: 3 * time.Millisecond}).errHeld)
		woken := make(map[string]int)
		notify := func(name string) func() { return h.b.Notify(request(name), func() { woken[name]++ }) }
		stopA := notify("a")
		notify("z")() // the session is being dialed already
		c := h.accept()
		c.answer("Aa")
		synctest.Wait()
		require.Equal(t, 1, woken["a"], "the key may have been freed before the Await")
		stop := notify("a")
		synctest.Wait()
		require.Equal(t, 2, woken["a"], "an earlier hint may have woken only the others")
		stop()
		c.events.Freed("b")
		c.events.Freed("a")
		require.Equal(t, 3, woken["a"])
		stopB := notify("b")
		c.answer("Ab")

		// The key is left when its last waiter stops, and before it is awaited again.
		stopA()
		stopA()
		c.answer("La")
		stopB()
		c.answer("Lb")
		stopA = notify("a")
		c.answer("Aa")

		// The next session awaits again.
		before := woken["a"]
		c.fail(errCut)
		require.Equal(t, before+1, woken["a"])
		require.Empty(t, h.dials, "the woken waiters ask")
		next := h.try(t.Context(), request("a"))
		c = h.accept()
		c.answer("Ta", "a")
		next.is(t, driver.ErrHeld)
		c.fails("Aa", driver.ErrUnavailable)
		require.Equal(t, before+1, woken["a"], "a failed Await wakes nobody")
		notify("a")
		c.answer("Aa")
		require.Equal(t, before+4, woken["a"])
		stopA()
	})
}
