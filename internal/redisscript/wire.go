package redisscript

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// wire is a connection of our own: who has calls to make writes them and reads the replies itself, one goroutine at a time. A lone caller
// saves two switches between goroutines so, more than a local Redis takes for the script. Since the connection is known, the end of a context
// can interrupt the read.
//
// go-redis dials, logs in and makes the first call. As long as the connection is in use, calls go past it: what it does for each
// command takes as long as what the server does.
type wire struct {
	options  *goredis.Options
	directly bool // calls may go past go-redis

	mu          sync.Mutex
	closed      bool
	client      *goredis.Client // with one connection
	conns       map[*wireConn]struct{}
	ready       *wireConn       // logged in, and nobody's but ours; nil: none
	using       *wireConn       // by the call under way, past go-redis
	call        int             // counts the calls, and their ends
	ctx         context.Context // of the call under way; nil: none
	began       time.Time
	interrupted bool        // the call under way
	timer       *time.Timer // looks whether there is one that takes long
	armed       bool
	unwatch     func() bool // ends the watch over the call under way; nil: it is not watched

	out    []byte // of the call under way
	merger merger
}

// unwatched is for how long a call is not watched, since most end sooner and a watch costs more than they can afford. Calls return so
// much later than their contexts end, unless the deadline is kept by the socket itself.
const unwatched = 20 * time.Millisecond

// newWire makes a wire with the settings of client, or nil if a connection of its own would not be as good: one that Sentinel finds is closed by
// go-redis when the master changes, but only in the client's own pool.
func newWire(client Client) *wire {
	c, ok := client.(*goredis.Client)
	if !ok || c.Options().Addr == "FailoverClient" {
		return nil
	}
	o := alone(c.Options())
	w := &wire{options: o, conns: make(map[*wireConn]struct{})}
	// Who counts calls, or changes the password of a connection that is open, must be asked for each.
	w.directly = o.Limiter == nil && o.StreamingCredentialsProvider == nil
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return w.add(conn), nil
	}
	w.client = goredis.NewClient(o)
	return w
}

// alone are the options of a client that has one connection, and on which nothing comes unasked.
func alone(options *goredis.Options) *goredis.Options {
	o := *options
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 1, 1
	o.PipelinePoolSize = -1 // pipelines too
	o.ContextTimeoutEnabled = true
	o.Protocol = 2
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	// The handlers of pushed messages are the client's own, and we need none.
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}

// run makes a call with args and reads its reply, until ctx ends. sent: the call may have been sent.
func (w *wire) run(ctx context.Context, args []any) (value any, sent bool, err error) {
	if conn := w.begin(ctx); conn != nil {
		w.out = appendArgs(w.out[:0], args)
		if err = conn.write(w.out); err == nil {
			value, err = readReply(conn.in)
		}
		if more := conn.surplus(); more != nil && (err == nil || !broken(err)) {
			err = more
		}
		w.end(err)
		return value, true, err
	}
	cmd := newCommand(args)
	value, err = cmd.outcome(w.client.Process(ctx, cmd))
	w.end(err)
	return value, cmd.written.Load(), err
}

// runAll makes all calls at once and reads their replies. The end of ctx does not interrupt it.
func (w *wire) runAll(ctx context.Context, calls []*call) {
	conn := w.begin(ctx)
	var err error // of the connection
	if conn == nil {
		through(ctx, w.client, calls)
		for _, c := range calls {
			if err == nil || !broken(err) {
				err = c.err
			}
		}
		w.end(err)
		return
	}
	err = w.exchange(conn, calls, true)
	if again := w.merger.refused(calls); len(again) > 0 {
		if err == nil {
			w.anew()
			err = w.exchange(conn, again, false)
		} else {
			for _, c := range again {
				c.err, c.sent = err, false
			}
		}
	}
	w.end(err)
	if cap(w.out) > keptBytes {
		w.out = nil
	}
}

// exchange writes all calls and reads their replies. merge: those of the same script may go as one. err: the connection is of no use any more.
func (w *wire) exchange(conn *wireConn, calls []*call, merge bool) (err error) {
	w.out = w.merger.append(w.out[:0], calls, merge)
	lost := conn.write(w.out)
	for rest := calls; len(rest) > 0; {
		n := w.merger.next(rest, merge)
		r := Reply{Err: lost}
		if lost == nil {
			r.Value, r.Err = readReply(conn.in)
			if reply := goredis.Error(nil); r.Err != nil && !errors.As(r.Err, &reply) {
				lost = r.Err
			}
		}
		if n == 1 {
			rest[0].value, rest[0].err = r.Value, r.Err
		} else {
			w.merger.share(rest[:n], r.Value, r.Err)
		}
		for _, c := range rest[:n] {
			if c.err != nil && c.err != errTogether && broken(c.err) {
				err = c.err
			}
		}
		rest = rest[n:]
	}
	if err == nil {
		err = conn.surplus()
	}
	return err
}

// keptBytes is how large a buffer is kept for the next calls.
const keptBytes = 256 << 10

// through makes all calls through client.
func through(ctx context.Context, client Client, calls []*call) {
	cmds := make([]*command, len(calls))
	for i, c := range calls {
		cmds[i] = newCommand(c.args)
	}
	if len(calls) == 1 {
		_ = client.Process(ctx, cmds[0]) // the command has the error too
	} else {
		pipeline := client.Pipeline()
		for _, cmd := range cmds {
			_ = pipeline.Process(ctx, cmd)
		}
		_, _ = pipeline.Exec(ctx)
	}
	for i, c := range calls {
		c.value, c.err = cmds[i].outcome(cmds[i].Err())
		c.sent = cmds[i].written.Load()
	}
}

// broken says that a connection is of no use after err. One to a server that has become a replica may lead elsewhere when it is made anew.
func broken(err error) bool {
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return true
	}
	text := scriptError(reply.Error())
	return strings.HasPrefix(text, "READONLY ") || strings.HasPrefix(text, "MOVED ")
}

// begin begins a call. With a connection that is not nil it goes past go-redis.
func (w *wire) begin(ctx context.Context) *wireConn {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call++
	w.ctx, w.began = ctx, now
	if !w.armed {
		w.armed = true
		if w.timer == nil {
			w.timer = time.AfterFunc(unwatched, w.watch)
		} else {
			w.timer.Reset(unwatched)
		}
	}
	if w.ready == nil || !w.ready.fit(now) {
		w.ready = nil
		return nil
	}
	w.using = w.ready
	if end, ok := ctx.Deadline(); ok && end.Sub(now) < unwatched {
		w.using.until(end)
	}
	return w.using
}

// end ends the call under way, whose outcome is err.
func (w *wire) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	direct := w.using != nil
	w.call++
	w.ctx, w.using, w.interrupted = nil, nil, false
	if w.unwatch != nil {
		w.unwatch()
		w.unwatch = nil
	}
	switch {
	case err != nil && broken(err):
		w.ready = nil
		if direct {
			w.renew()
		}
	case w.ready != nil:
		w.ready.used = w.began
	case w.directly && len(w.conns) == 1: // it has logged in, and go-redis has no other
		for c := range w.conns {
			c.used, w.ready = w.began, c
		}
	}
}

// renew gives the connection up, of which go-redis does not know that it is of no use any more. The mutex is held, and released meanwhile.
func (w *wire) renew() {
	if w.closed {
		return
	}
	old := w.client
	w.client = goredis.NewClient(w.options)
	w.mu.Unlock()
	_ = old.Close()
	w.mu.Lock()
}

// watch has the call under way interrupted when its context ends, or the server takes too long.
func (w *wire) watch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	if w.ctx == nil || w.unwatch != nil {
		return
	}
	call := w.call
	w.unwatch = context.AfterFunc(w.ctx, func() { w.interrupt(call) })
	if w.using != nil {
		w.limit()
	}
}

// anew counts the server's time from now: a second exchange has as much of it as the first.
func (w *wire) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Now()
	if w.unwatch != nil && !w.interrupted {
		w.limit()
	}
}

// limit gives the connection of the call under way as much time as that has. The mutex is held.
func (w *wire) limit() {
	end, ok := w.ctx.Deadline()
	if limit := w.began.Add(w.options.ReadTimeout); w.options.ReadTimeout > 0 && (!ok || limit.Before(end)) {
		end, ok = limit, true
	}
	if ok {
		w.using.until(end)
	}
}

// interrupt ends the call with the number call at once, if it is still under way.
func (w *wire) interrupt(call int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call == call {
		w.interrupted = true
		for c := range w.conns {
			c.until(past)
		}
	}
}

func (w *wire) add(conn net.Conn) net.Conn {
	c, outer := newWireConn(w, conn)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = struct{}{}
	return outer
}

// close closes the connection, under a call too.
func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	client, conns := w.client, slices.Collect(maps.Keys(w.conns))
	w.mu.Unlock()
	// First, for go-redis looks at a connection that it closes, which waits for whoever reads from it past go-redis.
	for _, c := range conns {
		_ = c.Close()
	}
	_ = client.Close()
}
