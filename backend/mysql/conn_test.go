package mysql

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

func TestConnTakesAndFrees(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{})
	a, b := dialFor(t, s), dialFor(t, s)
	require.NotEqual(t, a.ID(), b.ID())
	key := newKey()
	first := a.takes(key)
	require.Positive(t, first)
	b.finds(key)
	require.False(t, b.one(session.Free, key).OK, "b has nothing to free")
	b.finds(key)
	require.True(t, a.one(session.Free, key).OK)
	require.False(t, a.one(session.Free, key).OK, "it was taken once only")
	require.Greater(t, b.takes(key), first)
	require.False(t, a.one(session.Await, key).OK, "this server tells nobody")
	a.one(session.Leave, key)
	a.one(session.Ping, "")
}

func TestConnDoesManyAtOnceAndInOrder(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{})
	a, b := dialFor(t, s), dialFor(t, s)
	held, again := newKey(), newKey()
	b.takes(held)
	before := a.takes(again)
	ops := []*session.Op{{Kind: session.Try, Key: held}, {Kind: session.Free, Key: again}, {Kind: session.Ping}, {Kind: session.Try, Key: again}}
	for len(ops) < session.MaxBatch {
		ops = append(ops, &session.Op{Kind: session.Try, Key: newKey(), Name: "it's\x00 ünusual", Owner: `\"`})
	}
	require.NoError(t, a.do(ops...))
	require.False(t, ops[0].OK)
	require.Zero(t, ops[0].Token)
	require.True(t, ops[1].OK)
	require.Greater(t, ops[3].Token, before)
	for _, op := range ops[3:] {
		require.NoError(t, op.Err)
		require.True(t, op.OK)
		require.Positive(t, op.Token)
		b.finds(op.Key)
	}
	for _, op := range ops[3:] {
		op.Kind, op.OK = session.Free, false
	}
	require.NoError(t, a.do(ops[3:]...))
	for _, op := range ops[3:] {
		require.True(t, op.OK)
	}
	require.Greater(t, b.takes(again), ops[3].Token)
}

func TestConnWaits(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{TTL: 2 * time.Second})
	a, b, c := dialFor(t, s), dialFor(t, s), dialFor(t, s)
	key := newKey()
	first := a.takes(key)
	done := make(chan error, 1)
	op := &session.Op{Key: key}
	b.Wait(left(), op, func(err error) { done <- err })
	for end := time.Now().Add(a.Silence() + time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		a.one(session.Ping, "")
		c.one(session.Ping, "")
	}
	require.Empty(t, done)
	require.True(t, a.one(session.Free, key).OK)
	require.NoError(t, b.result(done))
	require.True(t, op.OK)
	require.Greater(t, op.Token, first)
	c.finds(key)

	// One who waits can be closed.
	c.Wait(left(), &session.Op{Key: key}, func(err error) { done <- err })
	c.Close()
	require.ErrorIs(t, c.result(done), errClosed)
}

func TestConnIsLeftWhenTheContextEnds(t *testing.T) {
	m := servers.SharedMariaDB(t)
	proxy, dsn, _ := proxyFor(t, m)
	a := dialFor(t, serverFor(t, dsn, Options{}))
	proxy.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	op := &session.Op{Kind: session.Try, Key: newKey()}
	a.Do(ctx, []*session.Op{op}, func(err error) { done <- err })
	require.Error(t, ctx.Err())
	require.Empty(t, done)
	proxy.Restore()
	require.NoError(t, a.result(done))
	require.True(t, op.OK)
}

func TestConnWithoutAnswerEnds(t *testing.T) {
	m := servers.SharedMariaDB(t)
	proxy, dsn, _ := proxyFor(t, m)
	a := dialFor(t, serverFor(t, dsn, Options{TTL: time.Second}))
	proxy.Freeze()
	require.ErrorContains(t, a.do(&session.Op{Kind: session.Ping}), "the server has not answered for 1s")
	a.ends()
	require.ErrorContains(t, a.do(&session.Op{Kind: session.Ping}), "the server has not answered for 1s", "it stays ended")
}

// TestConnTellsOfItsEnd: idle, waiting and asking, within far less than a poll would take.
func TestConnTellsOfItsEnd(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin := adminOf(t, m)
	for name, end := range map[string]func(a *asked){
		"KILL":    func(a *asked) { exec(t, admin, "KILL %d", a.thread) },
		"restart": func(*asked) { require.NoError(t, m.Kill()); require.NoError(t, m.Restart(t.Context())) },
		"close":   func(a *asked) { a.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serverFor(t, m.DSN(), Options{})
			a, b := dialFor(t, s), dialFor(t, s)
			key := newKey()
			a.takes(key)
			done := make(chan error, 1)
			b.Wait(left(), &session.Op{Key: key}, func(err error) { done <- err })
			end(b)
			require.Error(t, b.result(done))
			b.ends()
			end(a)
			a.ends()
			require.Error(t, a.do(&session.Op{Kind: session.Ping}))
			next := dialFor(t, s) // the server frees it in its own time
			require.Eventually(t, func() bool { return next.one(session.Try, key).OK }, within, time.Millisecond)
		})
	}
}

// TestConnSilence: the server keeps a session that says nothing for at least Silence, and not for much longer.
func TestConnSilence(t *testing.T) {
	for _, handling := range []string{"one-thread-per-connection", "pool-of-threads"} {
		t.Run(handling, func(t *testing.T) {
			t.Parallel()
			m := servers.NeedMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{"thread_handling": handling}})
			s := serverFor(t, m.DSN(), Options{TTL: time.Second})
			for i := range 5 { // at different moments of the server's ticks
				a := dialFor(t, s)
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				sent := time.Now()
				a.one(session.Ping, "")
				a.ends()
				require.GreaterOrEqual(t, time.Since(sent), a.Silence())
			}
		})
	}
}

func TestConnEndsAnEarlierSession(t *testing.T) {
	m := servers.SharedMariaDB(t)
	proxy, dsn, _ := proxyFor(t, m)
	s := serverFor(t, m.DSN(), Options{})
	gone, b := dialFor(t, serverFor(t, dsn, Options{})), dialFor(t, s)
	key := newKey()
	gone.takes(key)
	proxy.Freeze() // the server does not learn of what follows
	gone.Close()
	b.finds(key)
	end := func(id string) *session.Op {
		op := &session.Op{Kind: session.End, ID: id}
		require.Eventually(t, func() bool { require.NoError(t, b.do(op)); return op.OK || op.Err != nil }, within, time.Millisecond)
		return op
	}
	require.True(t, end(gone.ID()).OK)
	b.takes(key)
	require.True(t, end(gone.ID()).OK)
	// Another session that has the number is not taken for it.
	other := dialFor(t, s)
	require.True(t, end(fmt.Sprintf("%d/%snone", other.thread, markerPrefix)).OK)
	other.one(session.Ping, "")
	require.Error(t, end("nonsense").Err)
	// One that waits.
	done := make(chan error, 1)
	proxy.Restore()
	waits := dialFor(t, serverFor(t, dsn, Options{}))
	waits.Wait(left(), &session.Op{Key: key}, func(err error) { done <- err })
	proxy.Freeze()
	require.True(t, end(waits.ID()).OK)
	b.one(session.Free, key)
	other.takes(key)
}
