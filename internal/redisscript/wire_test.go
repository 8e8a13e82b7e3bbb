package redisscript

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// isDirect says that the next lone call of p goes past go-redis.
func isDirect(p *Pipe) bool {
	p.solo.mu.Lock()
	defer p.solo.mu.Unlock()
	return p.solo.ready != nil
}

func echoes(t *testing.T, p *Pipe, n int) {
	t.Helper()
	r := p.Run(t.Context(), echo, echoArgs(n), false)
	require.NoError(t, r.Err)
	require.Equal(t, fmt.Sprint(n), r.Value)
}

// pong has a wire make a call, which must succeed.
func pong(t *testing.T, w *wire) {
	t.Helper()
	value, _, err := w.run(t.Context(), []any{ping})
	require.NoError(t, err)
	require.Equal(t, "PONG", value)
}

// twoPings are calls that go together.
func twoPings() []*call { return []*call{{args: []any{ping}}, {args: []any{ping}}} }

// What is paid for each uncontended claim: a call allocates nothing of its own.
func TestLoneCallsAllocateNothing(t *testing.T) {
	o, _ := counting(t, servers.SharedRedis(t))
	p := pipeOf(t, o)
	one := NewScript("return 1")
	args := append(one.Args(1), "0")
	ctx := context.Background()
	run := func() {
		if r := p.Run(ctx, one, args, false); r.Err != nil || r.Value != int64(1) {
			t.Fatalf("%+v", r)
		}
	}
	run()
	require.True(t, isDirect(p))
	require.Zero(t, testing.AllocsPerRun(100, run))
}

// A connection that the server has closed is not used: the outcome would be unknown.
func TestWireSeesThatTheServerHasClosed(t *testing.T) {
	p, proxy, _ := proxied(t)
	for i := range 10 {
		echoes(t, p, i)
		require.True(t, isDirect(p))
		conn := p.solo.ready
		proxy.KillConns()
		rested := time.Now().Add(2 * restUnchecked)
		require.Eventually(t, func() bool { return time.Now().After(rested) && !conn.peek.quiet() }, 5*time.Second, time.Millisecond)
		echoes(t, p, i)
	}
}

// A reply that comes after its caller has gone is nobody else's.
func TestWireIsGivenUpWithACaller(t *testing.T) {
	for name, patience := range map[string]time.Duration{"soon": unwatched / 4, "watched": 3 * unwatched} {
		t.Run(name, func(t *testing.T) {
			p, proxy, _ := proxied(t)
			echoes(t, p, 1)
			proxy.Freeze()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r := p.Run(ctx, echo, echoArgs(2), false)
			require.ErrorIs(t, r.Err, driver.ErrUnknown)
			require.ErrorIs(t, r.Err, context.DeadlineExceeded)
			proxy.Restore()
			for i := range 3 {
				echoes(t, p, 3+i)
			}
			require.True(t, isDirect(p))
		})
	}
}

// A server that says nothing is waited for as long as the client's settings say, where no context does.
func TestWireHasTheClientsTimeout(t *testing.T) {
	_, proxy, _ := proxied(t)
	p := pipeOf(t, &goredis.Options{Addr: proxy.Addr(), ReadTimeout: time.Second})
	later, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), later} {
		echoes(t, p, 1)
		require.True(t, isDirect(p))
		proxy.Freeze()
		require.ErrorIs(t, p.Run(ctx, echo, echoArgs(2), false).Err, driver.ErrUnknown)
		proxy.Restore()
		echoes(t, p, 3)
	}
}

// A deadline that comes before anybody would look for it is the socket's own, for one call.
func TestWireHasTheCallersDeadline(t *testing.T) {
	w := merging(t, sharedOptions(t))
	soon, cancel := context.WithTimeout(t.Context(), unwatched/2)
	defer cancel()
	conn := w.begin(soon)
	require.NotNil(t, conn)
	require.True(t, conn.deadline)
	w.end(nil)
	<-soon.Done()
	pong(t, w)
	require.Same(t, conn, w.ready)
}

// The end of a context interrupts its own call, not one that comes later, nor what is between them.
func TestWireIsInterruptedForOneCall(t *testing.T) {
	w := merging(t, sharedOptions(t))
	conn := w.begin(t.Context())
	require.NotNil(t, conn)
	first := w.call
	w.end(nil)
	w.interrupt(first)
	require.False(t, w.interrupted || conn.deadline)
	require.Same(t, conn, w.begin(t.Context()))
	w.interrupt(first)
	require.False(t, w.interrupted || conn.deadline)
	w.end(nil)
	pong(t, w)

	require.Same(t, conn, w.begin(t.Context()))
	w.watch()
	w.interrupt(w.call)
	_ = conn.SetReadDeadline(time.Now().Add(time.Hour)) // as go-redis does
	_, err := readReply(conn.in)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	w.end(err)
	require.Nil(t, w.ready)
	for range 2 { // another connection, which nobody has interrupted
		pong(t, w)
	}
}

// counting are the options of a server's client that counts connections.
func counting(t *testing.T, s *servers.Redis) (*goredis.Options, *atomic.Int64) {
	o, err := goredis.ParseURL(s.URL())
	require.NoError(t, err)
	o.TLSConfig = s.TLSConfig()
	var dialed atomic.Int64
	dial := goredis.NewDialer(o)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, network, addr)
	}
	return o, &dialed
}

func TestWireKeepsATLSConnection(t *testing.T) {
	o, dialed := counting(t, servers.NeedRedis(t, servers.RedisOptions{TLS: true}))
	p := pipeOf(t, o)
	for i := range 5 {
		echoes(t, p, i)
	}
	require.EqualValues(t, 1, dialed.Load())
	p.solo.directly, p.solo.ready = false, nil
	for i := range 5 {
		echoes(t, p, i)
	}
	require.EqualValues(t, 1, dialed.Load(), "through go-redis neither")
}

// limiter counts what it is asked.
type limiter struct{ asked atomic.Int64 }

func (l *limiter) Allow() error { l.asked.Add(1); return nil }

func (l *limiter) ReportResult(error) {}

func TestWireAsksTheLimiter(t *testing.T) {
	l := &limiter{}
	o, _ := counting(t, servers.SharedRedis(t))
	o.Limiter = l
	p := pipeOf(t, o)
	for i := range 5 {
		echoes(t, p, i)
	}
	require.GreaterOrEqual(t, l.asked.Load(), int64(5))
}

// A connection is not used for longer than its life, however busy it is.
func TestWireEndsAConnectionsLife(t *testing.T) {
	o, dialed := counting(t, servers.SharedRedis(t))
	o.ConnMaxLifetime = 50 * time.Millisecond
	p := pipeOf(t, o)
	require.Eventually(t, func() bool {
		echoes(t, p, 1)
		return dialed.Load() > 2
	}, 5*time.Second, time.Millisecond)
}

// Close ends a call under way, however silent the server.
func TestWireClosesUnderACall(t *testing.T) {
	p, proxy, _ := proxied(t)
	echoes(t, p, 1)
	proxy.Freeze()
	reply := make(chan Reply)
	go func() { reply <- p.Run(context.Background(), echo, echoArgs(2), false) }()
	require.Eventually(t, func() bool {
		p.solo.mu.Lock()
		defer p.solo.mu.Unlock()
		return p.solo.using != nil
	}, 5*time.Second, time.Millisecond)
	p.Close()
	require.ErrorIs(t, (<-reply).Err, driver.ErrUnknown)
}

// TestWireComesBackAfterARest: what goes through go-redis after a rest is no second connection, with which none would be known to be ready.
func TestWireComesBackAfterARest(t *testing.T) {
	w := merging(t, sharedOptions(t))
	w.runAll(t.Context(), twoPings())
	w.mu.Lock()
	require.NotNil(t, w.ready)
	w.ready.used = time.Now().Add(-2 * restDirect)
	w.mu.Unlock()
	for range 2 {
		w.runAll(t.Context(), twoPings())
		require.NotNil(t, w.ready)
		require.Len(t, w.conns, 1)
	}
}

// TestSurplus: more than was asked for would be taken for the answers to later calls.
func TestSurplus(t *testing.T) {
	w := merging(t, sharedOptions(t))
	w.ready.in.Reset(io.MultiReader(strings.NewReader("+PONG\r\n:1\r\n"), w.ready.Conn))
	_, _, err := w.run(t.Context(), []any{ping})
	require.ErrorIs(t, err, errProtocol)
	require.Nil(t, w.ready)
	pong(t, w)

	w.ready.in.Reset(io.MultiReader(strings.NewReader("+PONG\r\n+PONG\r\n:1\r\n"), w.ready.Conn))
	w.runAll(t.Context(), twoPings())
	require.Nil(t, w.ready)
}

// A connection that go-redis has closed is not used past it.
func TestWireForgetsWhatIsClosed(t *testing.T) {
	w := merging(t, sharedOptions(t))
	_ = w.ready.Close()
	require.Nil(t, w.ready)
	require.Empty(t, w.conns)
	_, _, _ = w.run(t.Context(), []any{ping}) // go-redis sees it now, or has seen it before
	pong(t, w)
	require.NotNil(t, w.ready)
	require.Len(t, w.conns, 1)
}

// A server that has become a replica is left, for the name may lead elsewhere.
func TestWireLeavesAReplica(t *testing.T) {
	w := merging(t, sharedOptions(t))
	replies := func(text string) []any { return []any{eval, "return redis.error_reply('" + text + "')", 0} }
	for text, stays := range map[string]bool{"READONLY no": false, "MOVED 1 x": false, "OOM no": true} {
		_, _, err := w.run(t.Context(), replies(text))
		require.ErrorContains(t, err, text)
		require.Equal(t, stays, w.ready != nil, text)
		pong(t, w)
		pong(t, w)
		require.NotNil(t, w.ready)
		w.runAll(t.Context(), []*call{{args: replies(text)}, {args: []any{ping}}})
		require.Equal(t, stays, w.ready != nil, text)
		pong(t, w)
		pong(t, w)
	}
}

// TestContextsEndAfterClose: whoever is under way when the pipe is closed goes on to look at his context.
func TestContextsEndAfterClose(t *testing.T) {
	dialling := make(chan struct{}, 10)
	client := goredis.NewClient(&goredis.Options{
		Addr: "127.0.0.1:1", DialTimeout: time.Minute, DialerRetries: 1, MaxRetries: -1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialling <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	p := NewPipe(client, 0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { p.Run(ctx, echo, echoArgs(i), false) })
		if i < 2 {
			<-dialling
		}
	}
	p.Close()
	cancel()
	all.Wait()
}

// What follows a reply that is malformed is nobody's.
func TestNothingIsBelievedAfterAMalformedReply(t *testing.T) {
	w := merging(t, sharedOptions(t))
	w.ready.used = time.Now().Add(time.Hour)
	w.ready.in.Reset(strings.NewReader("?\r\n+PONG\r\n"))
	calls := twoPings()
	w.runAll(t.Context(), calls)
	for _, c := range calls {
		require.ErrorIs(t, c.err, errProtocol)
	}
	require.Nil(t, w.ready)
}
