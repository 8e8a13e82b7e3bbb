package session

import (
	"context"
	"testing"
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
