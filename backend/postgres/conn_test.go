package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/session"
)

func TestConn(t *testing.T) {
	t.Parallel()
	p := database(t)
	s := serverAt(t, with(t, p.URL(), "ttl", "2s"))
	a, toldA := dialled(t, s)
	b, toldB := dialled(t, s)
	require.NotEqual(t, a.ID(), b.ID())
	require.Equal(t, testTTL, a.Silence())

	first, second, held := op(session.Try, 1), op(session.Try, -2), op(session.Try, 1)
	ask(t, a, first, op(session.Ping, 0), second)
	require.True(t, first.OK && second.OK)
	require.Greater(t, second.Token, first.Token)
	ask(t, b, held)
	require.False(t, held.OK)

	// Who frees a key tells those who await it, and nobody else.
	await := op(session.Await, 1)
	ask(t, b, await, op(session.Await, 1))
	require.True(t, await.OK)
	require.Equal(t, session.Key("1"), receive(t, toldA.contended))
	nothing(t, toldB.contended)
	freed := op(session.Free, 1)
	ask(t, a, freed, op(session.Free, -2))
	require.True(t, freed.OK)
	require.Equal(t, session.Key("1"), receive(t, toldB.freed))
	ask(t, b, held)
	require.True(t, held.OK)
	require.Greater(t, held.Token, second.Token)
	again := op(session.Free, 1)
	ask(t, a, again)
	require.False(t, again.OK, "another has it")
	ask(t, b, op(session.Leave, 1), op(session.Leave, 1), op(session.Free, 1), op(session.Try, 1), op(session.Free, 1))
	nothing(t, toldB.freed)
	nothing(t, toldA.freed)

	// A wait ends with the grant.
	ask(t, a, op(session.Try, 3))
	done := make(chan error, 1)
	wait := op(session.Try, 3)
	b.Wait(gone(), wait, func(err error) { done <- err })
	require.Equal(t, session.Key("3"), receive(t, toldA.contended))
	nothing(t, done)
	ask(t, a, op(session.Free, 3))
	require.NoError(t, receive(t, done))
	require.True(t, wait.OK)
	require.NotZero(t, wait.Token)

	// A session that has ended holds nothing.
	end := &session.Op{Kind: session.End, ID: b.ID()}
	ask(t, a, end)
	require.ErrorContains(t, receive(t, toldB.ended), "57P01")
	for !end.OK {
		ask(t, a, end)
	}
	taken := op(session.Try, 3)
	ask(t, a, taken)
	require.True(t, taken.OK)
	ask(t, a, end)
	require.True(t, end.OK)
	end.ID = "1/1"
	ask(t, a, end)
	require.True(t, end.OK)
	end.ID = fmt.Sprintf("%d/1", a.pid) // an earlier process of that number
	ask(t, a, end)
	require.True(t, end.OK)
	ask(t, a, op(session.Ping, 0))
	b.Do(t.Context(), []*session.Op{op(session.Ping, 0)}, func(err error) { done <- err })
	require.ErrorContains(t, receive(t, done), "57P01")

	a.Close()
	require.ErrorIs(t, receive(t, toldA.ended), errClosed)
	require.Zero(t, s.used.Load())
}

// proxied is what opens sessions with p through a proxy.
func proxied(t *testing.T, p place, ttl string) (*server, *faultproxy.Proxy) {
	t.Helper()
	proxy, err := faultproxy.New(p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return serverAt(t, via(t, with(t, p.URL(), "ttl", ttl), proxy.Addr())), proxy
}

func TestDoReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	s, proxy := proxied(t, database(t), "1s")
	c, told := dialled(t, s)
	proxy.Freeze()
	done := make(chan error, 1)
	try := op(session.Try, 1)
	c.Do(gone(), []*session.Op{try}, func(err error) { done <- err })
	nothing(t, done)
	proxy.Restore()
	require.NoError(t, receive(t, done))
	require.True(t, try.OK)

	// The same while it reads the answer itself, as in the moments after another one.
	for range 5 {
		ask(t, c, op(session.Ping, 0))
		proxy.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		returned := make(chan struct{})
		go func() {
			c.Do(ctx, []*session.Op{op(session.Ping, 0)}, func(err error) { done <- err })
			close(returned)
		}()
		receive(t, returned)
		cancel()
		nothing(t, done)
		proxy.Restore()
		require.NoError(t, receive(t, done))
	}

	// An answer that does not come ends the connection.
	proxy.Freeze()
	start := time.Now()
	c.Do(gone(), []*session.Op{op(session.Free, 1)}, func(err error) { done <- err })
	require.ErrorContains(t, receive(t, done), "not answered for 1s")
	require.GreaterOrEqual(t, time.Since(start), time.Second)
	require.ErrorContains(t, receive(t, told.ended), "not answered")
}
