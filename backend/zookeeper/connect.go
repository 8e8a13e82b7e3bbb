package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// Log is a zk.Logger that learns the session timeout granted by the server. go-zookeeper reveals it only in its log:
//
//	log := &zookeeper.Log{To: zk.DefaultLogger}
//	conn, _, err := zk.Connect(servers, 15*time.Second, zk.WithLogger(log))
//	client, err := zookeeper.New(conn, zookeeper.Options{Log: log})
//
// Use one Log per connection, and leave information messages on (no zk.WithLogInfo(false)). Safe for concurrent use.
type Log struct {
	// To receives the messages. nil: they are discarded.
	To zk.Logger

	timeout atomic.Int64          // in milliseconds; 0: not known
	why     atomic.Pointer[error] // the last error logged
}

// Printf implements zk.Logger.
func (l *Log) Printf(format string, args ...any) {
	if format == "authenticated: id=%d, timeout=%d" && len(args) == 2 {
		if ms, ok := args[1].(int32); ok {
			l.timeout.Store(int64(ms))
		}
	}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			l.why.Store(&err)
		}
	}
	if l.To != nil {
		l.To.Printf(format, args...)
	}
}

// granted is the last timeout that the server granted.
func (l *Log) granted() time.Duration { return time.Duration(l.timeout.Load()) * time.Millisecond }

// connect makes a connection of our own. It opens a session now, and again whenever one has expired. log learns the timeout.
func (b *Backend) connect(timeout time.Duration, log *Log) *zk.Conn {
	var handshake *time.Timer
	dial := func(network, address string, bound time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		conn, err := b.o.Dial(ctx, network, address)
		if err == nil {
			leave := func() { _ = conn.Close() }
			handshake = time.AfterFunc(b.patience(), leave)
			b.mu.Lock()
			b.leave = leave
			b.mu.Unlock()
		}
		return conn, err
	}
	event := func(e zk.Event) {
		if e.State == zk.StateHasSession {
			handshake.Stop()
		}
	}
	conn, _, _ := zk.Connect(b.addresses, timeout, zk.WithDialer(dial), zk.WithHostProvider(new(hosts)), // fails only without addresses
		zk.WithEventCallback(event), zk.WithLogger(log))
	return conn
}

// patience is how long a connection of our own waits for a silent server before it tries the next. go-zookeeper would wait two thirds of the session
// timeout, when holds have little left, and several timeouts during the handshake.
func (b *Backend) patience() time.Duration { return max(time.Second, min(b.o.TTL/6, 5*time.Second)) }

// unreachable is the error of a request that was not sent because no server opened a session; log has the cause.
func (b *Backend) unreachable(log *Log) error {
	why := zk.ErrNoServer
	if last := log.why.Load(); last != nil {
		why = *last
	}
	return unavailable(fmt.Errorf("cannot reach ZooKeeper at %s: %w", strings.Join(b.addresses, ", "), why))
}

// probes is the number of attempts at a short session. A busy server may end one before it answers, and hang up.
const probes = 10

// probe opens a session as short as the servers allow, and returns half its timeout: by default, the minimum is two ticks. It returns after
// the attempt during which ctx ends.
func (b *Backend) probe(ctx context.Context) (tick time.Duration, err error) {
	const shortest = 100 * time.Millisecond // below this, go-zookeeper gives up before the answer
	log := new(Log)
	for try := 0; try < probes && ctx.Err() == nil; try++ { // on a new connection each: go-zookeeper would pause for a second
		conn := b.connect(shortest, log)
		_, _, _ = conn.Exists("/")
		go conn.Close() // takes a second if no server answers
		if granted := log.granted(); granted > 0 {
			return granted / 2, nil
		}
	}
	return 0, b.unreachable(log)
}

// hosts is a list of servers for go-zookeeper, a zk.HostProvider. The library's own list pauses for a second after each round: with one server,
// after each lost connection. It also resolves names only once. With this one, go-zookeeper pauses and fails unsent requests only after every server failed.
type hosts struct {
	servers []string
	next    int
	tried   int // since the last that opened a session
}

func (h *hosts) Init(shuffled []string) error {
	h.servers = shuffled
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

func (h *hosts) Connected() { h.tried = 0 }

func (h *hosts) Next() (server string, cameRound bool) {
	h.next = (h.next + 1) % len(h.servers)
	cameRound = h.tried > 0 && h.tried%len(h.servers) == 0
	h.tried++
	return h.servers[h.next], cameRound
}

// ready ensures that there is a connection with a session.
func (b *Backend) ready(ctx context.Context) error {
	select {
	case b.preparing <- struct{}{}:
		defer func() { <-b.preparing }()
	case <-ctx.Done():
		return unavailable(fmt.Errorf("%w (while connecting)", ctx.Err()))
	}
	b.mu.Lock()
	prepared, conn := !b.prepared.IsZero(), b.conn
	b.mu.Unlock()
	var err error
	switch {
	case b.ctx.Err() != nil:
		return unavailable(errClosed)
	case !prepared:
		err = b.prepare(ctx)
	case b.addresses == nil && conn.State() == zk.StateDisconnected: // it is closed, or will connect again in a moment
		if err = b.ping(); errors.Is(err, zk.ErrConnectionClosed) {
			return b.closed()
		}
	}
	if errors.Is(err, zk.ErrNoServer) && b.addresses != nil {
		return b.unreachable(b.o.Log)
	}
	return withoutEffect(err)
}

// prepare does the work of ready for a new connection.
func (b *Backend) prepare(ctx context.Context) error {
	if b.tick == 0 {
		tick, err := b.probe(ctx)
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.tick = tick
		b.mu.Unlock()
	}
	b.mu.Lock()
	if b.conn == nil && b.ctx.Err() == nil {
		b.observed = time.Now()
		b.conn = b.connect(b.o.TTL, b.o.Log)
	}
	conn := b.conn
	b.mu.Unlock()
	if b.o.Username != "" && b.authenticated != conn { // go-zookeeper would send each repetition at every reconnect
		_, err := call(b, false, "authenticate for", b.root(), func(c *zk.Conn) (any, error) {
			return nil, c.AddAuth("digest", []byte(b.o.Username+":"+b.o.Password))
		})
		if err != nil {
			return err
		}
		b.authenticated = conn
	}
	if err := b.ping(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil {
		b.prepared = time.Now()
	}
	b.tending.Do(func() { go b.tend() })
	return nil
}

// checkTimeout refuses a session timeout that does not fit the TTL. A server with another configuration may have changed it.
func (b *Backend) checkTimeout() error {
	switch granted, asked := b.timeout(), b.o.TTL; {
	case granted == 0:
		return fmt.Errorf("%w: the option Log has not seen the granted session timeout; pass it to zk.Connect by zk.WithLogger, without "+
			"zk.WithLogInfo(false)", driver.ErrRefused)
	case granted < asked/2: // the client's margins and renewals follow the TTL
		return fmt.Errorf("%w: the server granted the session timeout %v, which is less than half the TTL %v; set the TTL to %v, or raise "+
			"the server's maxSessionTimeout, or what your zk.Connect requests", driver.ErrRefused, granted, asked, granted)
	case granted > asked:
		return fmt.Errorf("%w: the server granted the session timeout %v, which is longer than the TTL %v; set the TTL to %v or more, "+
			"or lower the server's minSessionTimeout, or what your zk.Connect requests", driver.ErrRefused, granted, asked, granted)
	}
	return nil
}

// giveUp drops a connection of our own whose session no server has accepted for its lifetime. A server that lost its data refuses, for
// ever, a client that has seen more.
func (b *Backend) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	exchanges := b.session.exchanges
	if len(exchanges) > 0 && time.Since(exchanges[len(exchanges)-1].answered) >= b.timeout()+b.tick {
		b.drop()
	}
}

// renegotiate has the next claim make a new connection, if it is ours: this one asks all servers for no more than one of them granted. The old
// session ends at once, so it must carry no claim that was granted, or may be. A claim that is not granted by now never is: see win.
func (b *Backend) renegotiate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.prepared.IsZero() || b.checkTimeout() == nil || time.Since(b.prepared) < time.Second { // the next one may fit no better
		return
	}
	for _, c := range b.claims {
		if c.grant.Token != 0 || c.creation != nil {
			return
		}
	}
	b.drop()
}

// drop drops a connection of our own. b.mu is held.
func (b *Backend) drop() {
	if b.addresses == nil {
		return
	}
	go b.hangUp(b.conn)
	b.conn, b.session, b.prepared = nil, session{}, time.Time{}
	clear(b.watches) // of the old connection
}

// hangUp closes a connection of our own. go-zookeeper reads the answer to CreateContainer even if Close cut it off: such calls must end first.
func (b *Backend) hangUp(conn *zk.Conn) {
	b.containers.Lock()
	defer b.containers.Unlock()
	conn.Close()
}
