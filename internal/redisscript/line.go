package redisscript

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockport/lockport/driver"
)

// Answer is told what became of a call on a Line, once, from a goroutine that must not be held up. The error is classified as by
// Classify: driver.ErrUnavailable if the server certainly never saw the call.
type Answer interface {
	Answered(call int, r Reply)
}

const (
	// directBytes is how much may be unanswered for the caller to write to the socket itself: what surely fits into its buffer.
	directBytes = 16 << 10
	// maxOutstanding is how many calls may wait for a server that has said nothing for as long as busyAfter.
	maxOutstanding = 1024
	busyAfter      = 50 * time.Millisecond
	// freshFailure is for how long after a failed attempt to connect calls fail at once, while the next attempt is made in the background.
	freshFailure = time.Second
	// reconnectSoon is how long after a failed attempt the next may begin, and reconnectLate after many in a row.
	reconnectSoon = 20 * time.Millisecond
	reconnectLate = 500 * time.Millisecond
)

// Line runs scripts on one server over one connection: calls are written as they come, without waiting for replies, and a goroutine that
// always sits on the connection hands out the replies. No method waits for the server. Calls on one connection are carried out in the order in
// which they were made. Safe for concurrent use.
type Line struct {
	options *goredis.Options
	timeout time.Duration // of an answer: then the connection is given up
	ctx     context.Context
	cancel  context.CancelFunc

	mu         sync.Mutex
	closed     bool
	conn       *lineConn // nil: not connected
	connecting bool
	generation uint64 // counts the connections
	failed     error  // of the latest attempt to connect
	failedAt   time.Time
	failures   int    // attempts in a row
	out        []byte // to be written
	spare      []byte
	writing    bool
	calls      fifo // without a reply, in order
	unanswered int  // bytes of calls that were written, or are to be
	watchdog   *time.Timer
	watched    bool
	loaded     []*Script // that this connection has sent with their source
}

// lineConn is a connection, which go-redis has opened and logged in.
type lineConn struct {
	net.Conn
	client *goredis.Client
}

// lineCall is a call without a reply.
type lineCall struct {
	script  *Script // nil: a PING
	keys    []string
	argv    []string
	source  bool // with the script's source
	to      Answer
	call    int
	sent    time.Time
	bytes   int
	written bool // at least in part, perhaps
}

// NewLine makes a line to the server of client, with its settings, on a connection of its own. It does no I/O. An answer that takes
// longer than timeout ends the connection.
func NewLine(client *goredis.Client, timeout time.Duration) *Line {
	o := alone(client.Options())
	o.MaxRetries, o.DialerRetries = -1, 1
	l := &Line{options: o, timeout: timeout}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Terms are the terms of a call. The zero value has none.
type Terms struct {
	// Generation is the connection on which the call is to be made; on another it fails with ErrOtherConnection, having done nothing. 0: any.
	Generation uint64
	// Patience is for how long the server may have owed an answer already at Now; else the call fails at once. 0: any time.
	Patience time.Duration
	Now      time.Time // zero: the time of the call
}

// Call calls script. to is told the outcome, perhaps before Call returns. Call returns the generation of the connection.
func (l *Line) Call(script *Script, keys, argv []string, t Terms, to Answer, call int) (generation uint64) {
	if t.Now.IsZero() {
		t.Now = time.Now()
	}
	l.mu.Lock()
	if err := l.refuse(t); err != nil {
		l.mu.Unlock()
		to.Answered(call, Reply{Err: err})
		return 0
	}
	if l.conn == nil && !l.connecting {
		l.connect()
	}
	l.push(lineCall{script: script, keys: keys, argv: argv, to: to, call: call, sent: t.Now})
	generation = l.current()
	l.flush()
	return generation
}

// current is the generation of the connection, or of the one that is to be made. The mutex is held.
func (l *Line) current() uint64 {
	if l.conn == nil {
		return l.generation + 1
	}
	return l.generation
}

// ErrOtherConnection is the error of a call that was to be made on a connection that is gone.
var ErrOtherConnection = fmt.Errorf("%w: the connection is another", driver.ErrUnavailable)

// refuse is why a call is not to be made. The mutex is held.
func (l *Line) refuse(t Terms) error {
	switch {
	case l.closed:
		return Classify(goredis.ErrClosed, false)
	case t.Generation != 0 && t.Generation != l.current():
		return ErrOtherConnection
	case l.conn == nil && l.failed != nil && (l.connecting || t.Now.Sub(l.failedAt) < freshFailure):
		if !l.connecting && t.Now.Sub(l.failedAt) > min(reconnectSoon<<min(l.failures, 8), reconnectLate) {
			l.connect()
		}
		return l.failed
	case l.calls.len() == 0, t.Generation != 0: // what follows a call of the same claim is never refused: it gives up what that may get
		return nil
	}
	silent := t.Now.Sub(l.calls.first().sent)
	if t.Patience > 0 && silent > t.Patience || l.calls.len() >= maxOutstanding && silent > busyAfter {
		return fmt.Errorf("%w: %s has not answered for %v", driver.ErrUnavailable, l.options.Addr, silent.Round(time.Millisecond))
	}
	return nil
}

// push appends c to the calls that are to be written. The mutex is held.
func (l *Line) push(c lineCall) {
	if c.script != nil && !slices.Contains(l.loaded, c.script) { // so that no call is overtaken because its script is not known
		l.loaded = append(l.loaded, c.script)
		c.source = true
	}
	before := len(l.out)
	l.out = c.append(l.out)
	c.bytes = len(l.out) - before
	l.unanswered += c.bytes
	l.calls.push(c)
	if !l.watched {
		l.watched = true
		l.watch(l.timeout)
	}
}

// flush sees to it that what is to be written is. The mutex is held, and released.
func (l *Line) flush() {
	if l.conn == nil || l.writing || len(l.out) == 0 {
		l.mu.Unlock()
		return
	}
	l.writing = true
	if l.unanswered > directBytes {
		go l.write()
		l.mu.Unlock()
		return
	}
	l.writeOnce()
	if len(l.out) > 0 && l.conn != nil {
		go l.write() // others wait, and the caller does not write for them
	} else {
		l.writing = false
	}
	l.mu.Unlock()
}

// write writes until there is nothing left.
func (l *Line) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.out) > 0 && l.conn != nil {
		l.writeOnce()
	}
	l.writing = false
}

// writeOnce writes what there is to be written. The mutex is held, and released meanwhile.
func (l *Line) writeOnce() {
	out, conn := l.out, l.conn
	l.out, l.spare = l.spare[:0], nil
	l.calls.written()
	l.mu.Unlock()
	_, err := conn.Write(out)
	l.mu.Lock()
	l.spare = out[:0]
	if err != nil {
		l.broken(conn, err)
	}
}

// watch looks after d whether an answer is overdue. The mutex is held.
func (l *Line) watch(d time.Duration) {
	if l.watchdog == nil {
		l.watchdog = time.AfterFunc(d, l.look)
	} else {
		l.watchdog.Reset(d)
	}
}

func (l *Line) look() {
	l.mu.Lock()
	if l.closed || l.calls.len() == 0 {
		l.watched = false
		l.mu.Unlock()
		return
	}
	left := l.timeout - time.Since(l.calls.first().sent)
	if left > 0 {
		l.watch(left)
		l.mu.Unlock()
		return
	}
	l.watched = false
	late := fmt.Errorf("%s has not answered for %v", l.options.Addr, l.timeout)
	if l.conn != nil { // else it is being connected to
		l.end(l.conn)
	}
	l.failed, l.failedAt = Classify(late, false), time.Now() // not even a new connection is waited for
	l.fail(late)
}

// broken ends the connection after an error. The mutex is held, and released meanwhile.
func (l *Line) broken(conn *lineConn, err error) {
	if l.conn != conn {
		return
	}
	l.end(conn)
	l.fail(err)
	l.mu.Lock()
}

// end closes conn. The mutex is held.
func (l *Line) end(conn *lineConn) {
	l.conn = nil
	conn.close()
}

func (c *lineConn) close() {
	_ = c.Conn.Close()
	_ = c.client.Close()
}

// fail tells all calls err. The mutex is held, and released.
func (l *Line) fail(err error) {
	calls := l.calls.takeAll()
	l.out, l.unanswered, l.loaded = l.out[:0], 0, nil
	l.mu.Unlock()
	for i := range calls {
		calls[i].to.Answered(calls[i].call, Reply{Err: Classify(fmt.Errorf("%s: %w", l.options.Addr, err), calls[i].written)})
	}
}

// connect connects in the background. The mutex is held.
func (l *Line) connect() {
	l.connecting = true
	go func() {
		conn, err := l.dial()
		l.mu.Lock()
		l.connecting = false
		switch {
		case err == nil && !l.closed:
			l.conn, l.failed, l.failures = conn, nil, 0
			l.generation++
			go l.read(conn)
			l.flush()
			return
		case err == nil:
			conn.close()
			err = goredis.ErrClosed
		}
		l.failed, l.failedAt = Classify(fmt.Errorf("%s: %w", l.options.Addr, err), false), time.Now()
		l.failures++
		l.fail(err)
	}()
}

// dial opens a connection and has go-redis log in.
func (l *Line) dial() (*lineConn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.timeout)
	defer cancel()
	o := *l.options
	raw, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return nil, err
	}
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { return raw, nil }
	client := goredis.NewClient(&o)
	if err = client.Ping(ctx).Err(); err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		_, _ = client.Close(), raw.Close()
		return nil, err
	}
	return &lineConn{Conn: raw, client: client}, nil
}

// read hands out replies until the connection ends.
func (l *Line) read(conn *lineConn) {
	r := bufio.NewReader(conn)
	for {
		value, err := readReply(r)
		var reply goredis.Error
		l.mu.Lock()
		if l.conn != conn {
			l.mu.Unlock()
			return
		}
		if l.calls.len() == 0 || err != nil && !errors.As(err, &reply) {
			if err == nil {
				err = errors.New("a reply that nobody asked for")
			}
			l.broken(conn, err)
			l.mu.Unlock()
			return
		}
		c := l.calls.pop()
		l.unanswered -= c.bytes
		if isNoScript(err) && !c.source {
			c.source, c.written = true, false
			l.push(c)
			l.flush()
			continue
		}
		l.mu.Unlock()
		c.to.Answered(c.call, Reply{Value: value, Err: Classify(err, true)})
	}
}

// Close ends the line: calls without a reply fail.
func (l *Line) Close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	l.cancel()
	if l.watchdog != nil {
		l.watchdog.Stop()
	}
	if l.conn != nil {
		l.end(l.conn)
	}
	l.fail(goredis.ErrClosed)
}

// alone are the options of a client that has one connection, and on which nothing comes unasked.
func alone(options *goredis.Options) *goredis.Options {
	o := *options
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 1, 1
	o.PipelinePoolSize = -1 // pipelines too
	o.ContextTimeoutEnabled = true
	o.Protocol = 2
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}
