package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestReadersOfOneSession(t *testing.T) {
	byHand(t, Options{Blockers: 2}, func(t *testing.T, h *hand) {
		req := peer.Reading(request("a"))
		c, first := h.live(req)
		h.try(t.Context(), req).is(t, driver.ErrHeld)
		second := h.held(c, peer.Reading(request("a")))
		h.try(t.Context(), request("a")).is(t, driver.ErrHeld) // the server would grant it to this session

		writer := h.wait(t.Context(), request("a")) // on its own session: the server keeps them apart
		queue := h.accept()
		require.Equal(t, "Ta!", queue.asked())
		h.wait(t.Context(), request("a")).is(t, driver.ErrHeld) // one writer waits for the others of the process
		h.try(t.Context(), peer.Reading(request("a"))).is(t, driver.ErrHeld)
		h.frees(c, first, "a")
		h.frees(c, second, "a")
		queue.grants(writer, "Ta!")

		h.try(t.Context(), peer.Reading(request("a"))).is(t, driver.ErrHeld)
		reader := h.wait(t.Context(), peer.Reading(request("a")))
		behind := h.accept()
		h.frees(queue, writer.lease, "a")
		require.True(t, behind.ops[0].Shared, "a reader asks for a key of its own")
		behind.grants(reader, "Ta!")
	})
}

func TestPermitsOfOneSession(t *testing.T) {
	byHand(t, Options{Blockers: 1}, func(t *testing.T, h *hand) {
		set := plainLayout.Permit("a", 0)
		first, second := plainLayout.Permit(set, 1), plainLayout.Permit(set, 2)
		h.wait(t.Context(), peer.Permit(request("a"), 2)).is(t, driver.ErrHeld) // the server has no queue for several locks
		mine, two := peer.Permit(request("a"), 2), peer.Permit(request("a"), 2)
		one := h.try(t.Context(), mine)
		c := h.accept()
		next := h.try(t.Context(), two) // the first may still get either
		require.Len(t, c.ops[0].Slots, 2)
		c.events.Contended(set)
		c.ops[0].OK, c.ops[0].Slot = true, second
		c.finish(nil)
		one.is(t, nil)
		require.Equal(t, "T"+string(set), c.asked())
		require.Equal(t, []Key{first}, c.ops[0].Slots)
		c.ops[0].OK, c.ops[0].Slot = true, first
		c.finish(nil)
		next.is(t, nil)
		h.try(t.Context(), two).is(t, driver.ErrHeld)
		h.try(t.Context(), peer.Permit(request("a"), 2)).is(t, driver.ErrHeld)
		h.held(c, request("a")) // the lock is independent of the permits

		abandoned := h.abandon(t.Context(), two)
		require.Equal(t, "F"+string(set), c.asked())
		require.Equal(t, first, c.ops[0].Slot)
		c.grants(abandoned, "F"+string(set))
		h.try(t.Context(), mine).is(t, driver.ErrHeld) // an owner gets one permit

		c.fail(errCut) // only the server knows whether the permits are free
		after := h.try(t.Context(), peer.Permit(request("a"), 2))
		d := h.accept()
		require.Len(t, d.ops[0].Slots, 2)
		d.answer("T"+string(set), set)
		after.is(t, driver.ErrHeld)
	})
}
