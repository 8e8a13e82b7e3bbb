package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A process with many locks has one shared watch. It reports losses and waiters to holders granted before it began, and to later ones.
func TestSharedWatch(t *testing.T) {
	s, etcd, n := alone(t)
	lost := make(chan int, 100)
	var leases []*claim
	takes := func(i int) {
		req := n.Request(name(i))
		req.TTL = time.Minute // no renewal checks the key
		req.Lost = func(error) { lost <- i }
		leases = append(leases, n.Takes(req).(*claim))
	}
	removes := func(i int) {
		t.Helper()
		require.NoError(t, peer.ErrOf(etcd.Delete(t.Context(), leases[i].key)))
		require.Equal(t, i, peer.Eventually(t, lost))
	}
	shares := func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.watches.shared != nil }
	for i := range ownWatches + 8 {
		takes(i)
	}
	removes(0)
	peer.Until(t, shares)
	removes(1)
	takes(len(leases))
	removes(len(leases) - 1)
	reader, contended := n.Request("shared"), make(chan struct{}, 100)
	reader.Shared, reader.Contended = true, func() { contended <- struct{}{} }
	leases = append(leases, n.Takes(reader).(*claim))
	writer := newNode(t, s.URL())
	writer.Waits(writer.Request("shared")) // perhaps before the reader has a watch
	peer.Eventually(t, contended)
	(*shared)(&n.watches).happened(leases[2].key, true, int64(leases[2].grant.Token)-1) // the end of an earlier claim, reported late
	require.Empty(t, lost)
	other, waits := newNode(t, s.URL()), n.Request("waits")
	held := other.Takes(other.Request("waits"))
	n.Waits(waits)
	granted := make(chan error, 1)
	go func() { _, err := n.Wait(t.Context(), waits); granted <- err }()
	<-time.After(watchDelay)
	start := time.Now()
	n.Frees(held)
	require.NoError(t, <-granted)
	require.Less(t, time.Since(start), lookEvery/2)
	require.NoError(t, n.Abandon(t.Context(), waits))
	for i, c := range leases {
		if i == ownWatches {
			removes(i)
		}
		if err := n.Releases(c); !errors.Is(err, driver.ErrLost) {
			require.NoError(t, err)
		}
	}
	require.False(t, shares())
}

// A reader that is refused because of a waiting writer is told who holds the lock.
func TestRefusedReaderIsToldTheHolder(t *testing.T) {
	_, _, n := alone(t)
	first, writer := peer.Reading(n.Request("x")), n.Request("x")
	lease := n.Takes(first)
	n.Waits(writer)
	require.Equal(t, first.Owner, n.Waits(peer.Once(peer.Reading(n.Request("x")))).Holder.Owner)
	n.Frees(lease)
	n.Frees(n.Takes(writer))
}
