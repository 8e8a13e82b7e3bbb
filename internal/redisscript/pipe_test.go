package redisscript

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// echo returns its argument.
var echo = NewScript("return ARGV[1]")

func echoArgs(i int) []any { return append(echo.Args(3), "1", fmt.Sprint("k", i), i) }

// proxied is a pipe to a real server through a proxy. The client has go-redis' own settings, contexts unheeded and retries on.
func proxied(t *testing.T) (*Pipe, *faultproxy.Proxy, *servers.Redis) {
	s := servers.SharedRedis(t)
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(t, err)
	o, err := goredis.ParseURL(s.URL())
	require.NoError(t, err)
	o.Addr = proxy.Addr()
	t.Cleanup(func() { _ = proxy.Close() })
	return pipeOf(t, o), proxy, s
}

// pipeOf is a pipe of a client of its own.
func pipeOf(t *testing.T, o *goredis.Options) *Pipe {
	client := goredis.NewClient(o)
	p := NewPipe(client, 0, 0)
	t.Cleanup(func() { p.Close(); _ = client.Close() })
	return p
}

func TestPipeGivesEachItsReply(t *testing.T) {
	p, _, _ := proxied(t)
	var wg sync.WaitGroup
	for g := range 50 {
		wg.Go(func() {
			for i := range 40 {
				n := 100*g + i
				r := p.Run(t.Context(), echo, echoArgs(n), false)
				if r.Err != nil || r.Value != fmt.Sprint(n) {
					t.Errorf("reply %v, %v, want %d", r.Value, r.Err, n)
				}
			}
		})
	}
	wg.Wait()
	var args [][]any
	for i := range 3*maxBatch + 7 {
		args = append(args, echoArgs(i))
	}
	for i, r := range p.RunAll(t.Context(), echo, args, false) {
		require.NoError(t, r.Err)
		require.Equal(t, fmt.Sprint(i), r.Value)
	}
}

func TestPipeSendsTogether(t *testing.T) {
	p, proxy, _ := proxied(t)
	require.NoError(t, p.Run(t.Context(), echo, echoArgs(0), false).Err)
	proxy.Delay(10 * time.Millisecond)
	const n = 200
	before := proxy.Conns()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { p.Run(t.Context(), echo, echoArgs(i), false) })
	}
	wg.Wait()
	// One by one they would take n round trips of 20 ms, and a connection each to be quicker.
	require.Less(t, time.Since(start), n/4*20*time.Millisecond)
	require.LessOrEqual(t, proxy.Conns(), before+maxActive+maxExtra)
}

func TestPipeLoadsScriptsAgain(t *testing.T) {
	p, _, s := proxied(t)
	flushed := NewScript("return 'flushed' .. ARGV[1]") // of this test alone, for a flush hits all
	args := func(i int) []any { return append(flushed.Args(3), "1", "k", i) }
	for range 2 {
		_, err := s.Do(t.Context(), "SCRIPT", "FLUSH")
		require.NoError(t, err)
		r := p.Run(t.Context(), flushed, args(1), false)
		require.NoError(t, r.Err)
		require.Equal(t, "flushed1", r.Value)
		_, err = s.Do(t.Context(), "SCRIPT", "FLUSH")
		require.NoError(t, err)
		for i, r := range p.RunAll(t.Context(), flushed, [][]any{args(0), args(1), args(2)}, false) {
			require.NoError(t, r.Err)
			require.Equal(t, fmt.Sprint("flushed", i), r.Value)
		}
	}
}

// An urgent script that the server does not know yet costs no second round trip, alone or as one of many: the first renewal has no time for it.
func TestPipeSendsTheSourceFirst(t *testing.T) {
	p, _, s := proxied(t)
	refusals := func() string { // "errorstat_NOSCRIPT:count=1", or nothing
		text, err := s.Do(t.Context(), "INFO", "errorstats")
		require.NoError(t, err)
		return regexp.MustCompile(`errorstat_NOSCRIPT:\S+`).FindString(fmt.Sprint(text))
	}
	_, err := s.Do(t.Context(), "SCRIPT", "FLUSH")
	require.NoError(t, err)
	alone, many := NewScript("return 'alone' .. ARGV[1]").Urgent(), NewScript("return 'many' .. ARGV[1]").Urgent()
	args := func(s *Script, i int) []any { return append(s.Args(3), "1", "k", i) }
	before := refusals()
	require.Equal(t, "alone1", p.Run(t.Context(), alone, args(alone, 1), false).Value)
	for i, r := range p.RunAll(t.Context(), many, [][]any{args(many, 0), args(many, 1), args(many, 2)}, false) {
		require.NoError(t, r.Err)
		require.Equal(t, fmt.Sprint("many", i), r.Value)
	}
	require.Equal(t, before, refusals())
}

// A caller leaves when its context ends, whether it waits for the socket itself or a worker does.
func TestPipeLetsCallersGo(t *testing.T) {
	p, proxy, _ := proxied(t)
	require.NoError(t, p.Run(t.Context(), echo, echoArgs(0), false).Err)
	proxy.Freeze()
	for _, end := range []string{"cancel", "deadline"} {
		var wg sync.WaitGroup
		for range 5 { // the first alone, others behind it
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				if end == "deadline" {
					ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
				} else {
					time.AfterFunc(100*time.Millisecond, cancel)
				}
				defer cancel()
				r := p.Run(ctx, echo, echoArgs(1), false)
				<-ctx.Done()
				if late, _ := ctx.Deadline(); !late.IsZero() && time.Since(late) > time.Second {
					t.Errorf("%s: returned %v late", end, time.Since(late))
				}
				if r.Err == nil {
					t.Errorf("%s: no error", end)
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(3 * time.Second): // go-redis' read timeout is 5 s
			t.Fatalf("%s: callers are held up", end)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := p.Run(ctx, echo, echoArgs(1), false)
	require.ErrorIs(t, r.Err, driver.ErrUnavailable, "it was certainly not sent")
	require.ErrorIs(t, r.Err, context.Canceled)
	proxy.Restore()
	require.NoError(t, p.Run(t.Context(), echo, echoArgs(2), false).Err, "the pipe is as good as before")
}

func TestPipeSaysUnknownWhenTheReplyIsLost(t *testing.T) {
	p, proxy, s := proxied(t)
	count := NewScript("return redis.call('INCR', KEYS[1])")
	key := t.Name()
	args := func() []any { return append(count.Args(2), "1", key) }
	require.NoError(t, p.Run(t.Context(), count, args(), false).Err)
	dropped := proxy.DropReply(count.Names)
	r := p.Run(t.Context(), count, args(), false)
	require.ErrorIs(t, r.Err, driver.ErrUnknown)
	<-dropped
	n, err := s.Do(t.Context(), "GET", key)
	require.NoError(t, err)
	require.Equal(t, "2", n, "sent once, although go-redis retries what it may")
	_, _ = s.Do(t.Context(), "DEL", key)
}

func TestPipeSaysUnavailableWhenNobodyAnswers(t *testing.T) {
	p := pipeOf(t, &goredis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	r := p.Run(t.Context(), echo, echoArgs(1), false)
	require.ErrorIs(t, r.Err, driver.ErrUnavailable)
	for _, r := range p.RunAll(t.Context(), echo, [][]any{echoArgs(1), echoArgs(2)}, false) {
		require.ErrorIs(t, r.Err, driver.ErrUnavailable)
	}
}

// stuckClient answers nothing on its first calls.
type stuckClient struct {
	stuck atomic.Int64
	free  chan struct{}
}

func (c *stuckClient) Process(_ context.Context, cmd goredis.Cmder) error {
	if c.stuck.Add(-1) >= 0 {
		<-c.free
	}
	cmd.(*command).SetVal("ok")
	return nil
}

func (c *stuckClient) Pipeline() goredis.Pipeliner { return &stuckPipeline{client: c} }

type stuckPipeline struct {
	goredis.Pipeliner
	client *stuckClient
	cmds   []goredis.Cmder
}

func (p *stuckPipeline) Process(_ context.Context, cmd goredis.Cmder) error {
	p.cmds = append(p.cmds, cmd)
	return nil
}

func (p *stuckPipeline) Exec(ctx context.Context) ([]goredis.Cmder, error) {
	for _, cmd := range p.cmds {
		_ = p.client.Process(ctx, cmd)
	}
	return p.cmds, nil
}

// hangWorkers makes every worker that stays hang in a call, and returns how many there are of those.
func hangWorkers(ctx context.Context, t *testing.T, p *Pipe, c *stuckClient, replies chan<- Reply) int {
	c.stuck.Store(maxActive)
	for left := maxActive - 1; left >= 0; left-- {
		go func() { replies <- p.Run(ctx, echo, echoArgs(1), false) }()
		require.Eventually(t, func() bool { return c.stuck.Load() <= int64(left) }, 5*time.Second, time.Millisecond)
	}
	return maxActive
}

// Who leaves is told whether his call may have been sent; one that was not is not sent any more.
func TestPipeKnowsWhatItHasSent(t *testing.T) {
	c := &stuckClient{free: make(chan struct{})}
	p := NewPipe(c, 0, 0)
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	sent, waiting := make(chan Reply, maxActive), make(chan Reply, 1)
	hangWorkers(ctx, t, p, c, sent)
	p.mu.Lock()
	p.armed = true // nobody else comes to the rescue
	p.mu.Unlock()
	go func() { waiting <- p.Run(ctx, echo, echoArgs(2), false) }()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) > 0
	}, 5*time.Second, time.Millisecond)
	cancel()
	for range maxActive {
		r := <-sent
		require.ErrorIs(t, r.Err, driver.ErrUnknown)
		require.ErrorIs(t, r.Err, context.Canceled)
	}
	r := <-waiting
	require.ErrorIs(t, r.Err, driver.ErrUnavailable)
	require.ErrorIs(t, r.Err, context.Canceled)
	close(c.free)
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.active == 0 && len(p.waiting) == 0
	}, 5*time.Second, time.Millisecond)
	require.Zero(t, c.stuck.Load(), "the third was not sent")
	require.NoError(t, p.Run(t.Context(), echo, echoArgs(3), false).Err)
}

func TestPipeGoesAroundDeadConnections(t *testing.T) {
	c := &stuckClient{free: make(chan struct{})}
	p := NewPipe(c, 0, 0)
	replies := make(chan Reply)
	hanging := hangWorkers(t.Context(), t, p, c, replies)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r := p.Run(ctx, echo, echoArgs(2), false)
	require.NoError(t, r.Err)
	require.Equal(t, "ok", r.Value)
	close(c.free)
	for range hanging {
		require.NoError(t, (<-replies).Err)
	}
	p.Close()
}

func TestPipeClose(t *testing.T) {
	c := &stuckClient{free: make(chan struct{})}
	p := NewPipe(c, 0, 0)
	replies, late := make(chan Reply), make(chan Reply)
	hanging := hangWorkers(t.Context(), t, p, c, replies)
	c.stuck.Store(maxExtra) // those that come to the rescue hang too
	const n = 30
	for range n {
		go func() { late <- p.Run(t.Context(), echo, echoArgs(1), false) }()
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.waiting) == 0 {
			return false
		}
		p.active += maxExtra // nobody else comes to the rescue
		return true
	}, 5*time.Second, time.Millisecond)
	p.Close()
	close(c.free)
	closed := 0
	for range n {
		if r := <-late; r.Err != nil {
			require.ErrorIs(t, r.Err, driver.ErrUnavailable)
			closed++
		}
	}
	require.Positive(t, closed)
	for range hanging {
		require.NoError(t, (<-replies).Err)
	}
	require.ErrorIs(t, p.Run(t.Context(), echo, echoArgs(1), false).Err, driver.ErrUnavailable)
	p.Close()
}

// Of many calls, those whose script the server did not know are made again, and each gets its own reply.
func TestPipeMakesTheUnknownAgain(t *testing.T) {
	p, _, s := proxied(t)
	_, err := s.Do(t.Context(), "SCRIPT", "FLUSH")
	require.NoError(t, err)
	known, unknown := NewScript("return 'known' .. ARGV[1]"), NewScript("return 'unknown' .. ARGV[1]")
	var args [][]any
	var want []Reply
	for i := range 4 {
		if a := []any{nil, nil, "1", "k", i}; i%2 == 0 {
			args, want = append(args, known.withSource(a)), append(want, Reply{Value: "known" + string(rune('0'+i))})
		} else {
			a[0], a[1] = evalSHA, unknown.sha
			args, want = append(args, a), append(want, Reply{Value: "unknown" + string(rune('0'+i))})
		}
	}
	require.Equal(t, want, p.RunAll(t.Context(), unknown, args, false))
}
