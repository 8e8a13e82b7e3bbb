package zookeeper

import (
	"io"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A transaction whose connection is lost fails for each whose write it carried, and may have been carried out.
func TestTapClosesUnderATransaction(t *testing.T) {
	t.Parallel()
	tap, server := quietLife(time.Second)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	tap.greeted, tap.shaken = true, true
	var all []*pending
	for range maxWrites + 3 {
		all = append(all, tap.send(deleteFrame("/x"))...)
	}
	tap.listen(response(firstNumber-1, 1, codeOK, nil)) // room for those that wait, which go together
	require.NoError(t, all[0].wait(within(t, soon)))
	require.NoError(t, tap.Close())
	for _, p := range all[1:] {
		require.ErrorIs(t, p.wait(within(t, soon)), zk.ErrConnectionClosed)
		require.False(t, p.sent.IsZero())
	}
}

// Requests that wait for their turn behind a claim fail with it.
func TestTapClosesOnWhatWaitsTogether(t *testing.T) {
	t.Parallel()
	tap, server := quietLife(time.Second)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	for range maxWrites {
		tap.send(deleteFrame("/x"))
	}
	sent := tap.send(deleteFrame("/x"), listFrame("/"))
	require.NoError(t, tap.Close())
	for _, p := range sent {
		require.ErrorIs(t, p.wait(within(t, soon)), zk.ErrConnectionClosed)
		require.True(t, p.sent.IsZero())
	}
}

// The end of a connection that was replaced is no news.
func TestTapClosesLate(t *testing.T) {
	t.Parallel()
	old, server := quietLife(time.Second)
	defer func() { _ = server.Close() }()
	l := old.life
	l.tap, l.ready = newTap(nil, l, time.Second, time.Minute), true
	require.NoError(t, old.Close())
	require.True(t, l.ready)
	l.tap = old
	_ = old.Close()
	require.False(t, l.ready)
}
