package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// life is one session with all its connections. When it ends, what it held is lost; another takes its place.
type life struct {
	b      *Backend
	conn   *zk.Conn
	events <-chan zk.Event // closed when go-zookeeper's goroutines have ended
	ctx    context.Context // ends when the life does
	cancel context.CancelFunc
	buried chan struct{} // closed when the life has ended and the server is known to have ended the session

	mu        sync.Mutex
	news      chan struct{} // closed and replaced when one of the next six changes
	over      error         // why it has ended; nil: it has not
	ready     bool          // the session is attached, and authenticated
	up        bool          // a server has answered the handshake, and the connection has not been lost
	again     int           // how often the session was attached
	trying    bool          // a connection is being made
	failures  int           // connections that could not be made, ever
	row       int           // and since the last that could
	why       error         // the last one
	told      bool          // go-zookeeper knows the credentials
	losses    int           // how often the connection was lost
	session   int64         // 0: not granted yet
	password  []byte        // of the session
	granted   time.Duration // the timeout
	confirmed time.Time     // when the leader last is known to have been told that the session lives, at the least
	zxid      int64         // the last transaction seen
	tap       *tap          // the last connection

	watches map[string]*watch   // by path
	held    map[*claim]struct{} // to be told of the life's end
	arming  []arming            // whose nodes are to be watched, the oldest first
	armers  int
	armer   *time.Timer // starts the first of them
}

// begin begins a life. b.mu is held.
func (b *Backend) begin() (*life, error) {
	l := &life{
		b: b, news: make(chan struct{}), buried: make(chan struct{}),
		watches: make(map[string]*watch), held: make(map[*claim]struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(b.ctx)
	l.mu.Lock() // until conn is set: go-zookeeper begins at once
	defer l.mu.Unlock()
	var err error
	l.conn, l.events, err = zk.Connect(b.servers, b.o.TTL, zk.WithDialer(l.dial), zk.WithHostProvider(&hosts{life: l}),
		zk.WithEventCallback(l.event), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		l.cancel()
		return nil, err
	}
	b.lives.Add(1)
	return l, nil
}

// silent is go-zookeeper's logger.
type silent struct{}

func (silent) Printf(string, ...any) {}

// tell wakes who waits for news. l.mu is held.
func (l *life) tell() {
	close(l.news)
	l.news = make(chan struct{})
}

func (l *life) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// await waits until the session is attached. It gives up when ctx or the life ends, or every server was tried in vain.
func (l *life) await(ctx context.Context) (*tap, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for start := l.failures; ; {
		switch {
		case l.over != nil:
			return nil, l.over
		case l.ready:
			return l.tap, nil
		case l.failures-start >= len(l.b.servers):
			return nil, unavailable(fmt.Errorf("no server of %d can be reached: %w", len(l.b.servers), orSilent(l.why)))
		}
		news, ended := l.news, false
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			ended = true
		}
		l.mu.Lock()
		if ended {
			return nil, unavailable(fmt.Errorf("%w (while connecting: %w)", ctx.Err(), orSilent(l.why)))
		}
	}
}

var errSilent = errors.New("no server has answered")

func orSilent(err error) error {
	if err == nil {
		return errSilent
	}
	return err
}

// attached is called when a server has answered the handshake, which was sent at opened.
func (l *life) attached(session int64, password []byte, timeout time.Duration, opened time.Time) {
	l.mu.Lock()
	if session == 0 { // expired: go-zookeeper says so
		l.mu.Unlock()
		return
	}
	fresh := l.session == 0
	l.session, l.password, l.granted = session, password, timeout
	if fresh { // it took a quorum to open it
		l.confirmed = opened
	}
	l.mu.Unlock()
	asked := l.b.o.TTL
	switch {
	case !fresh:
	case timeout < asked/2: // the margins and renewals of a client go by the TTL
		l.end(fmt.Errorf("%w: the server's largest session timeout is %v, which is less than half the TTL %v; set the TTL to %v, or raise "+
			"the server's maxSessionTimeout", driver.ErrRefused, timeout, asked, timeout))
	case timeout > asked:
		l.end(fmt.Errorf("%w: the server's smallest session timeout is %v, which is longer than the TTL %v; set the TTL to %v or more, "+
			"or lower the server's minSessionTimeout", driver.ErrRefused, timeout, asked, timeout))
	}
}

// heard is called when a server has answered: with the last transaction that it knows, and when the leader was told of the session at
// the least, if that is known now.
func (l *life) heard(zxid int64, confirmed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.zxid = max(l.zxid, zxid)
	if confirmed.After(l.confirmed) {
		l.confirmed = confirmed
	}
}

// lost is called when a connection was lost, before go-zookeeper says so.
func (l *life) lost(t *tap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tap == t && l.ready {
		l.ready = false
		l.tell()
	}
}

// expired is called when a server says that the session is no more.
func (l *life) expired() {
	l.mu.Lock()
	l.session = 0 // nothing is left to be buried
	l.mu.Unlock()
	l.end(unavailable(errors.New("the session has expired")))
}

// seen is the last transaction seen.
func (l *life) seen() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.zxid
}

// until is the instant before which the server cannot end the session.
func (l *life) until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.confirmed.Add(l.granted)
}

// timeout is that of the session.
func (l *life) timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.granted, l.b.o.TTL)
}

// event is go-zookeeper's callback. It must not block.
func (l *life) event(e zk.Event) {
	switch e.Type {
	case zk.EventNodeCreated, zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeChildrenChanged:
		l.fire(e.Path)
	case zk.EventSession:
		switch e.State {
		case zk.StateHasSession:
			l.mu.Lock()
			l.trying, l.up, l.row = false, true, 0
			if l.b.o.Username == "" {
				l.attach()
			} else if !l.told { // what go-zookeeper once was told it repeats by itself
				go l.authenticate()
			}
			l.mu.Unlock()
		case zk.StateDisconnected:
			l.mu.Lock()
			if l.up {
				l.losses++
				lost := l.losses
				time.AfterFunc(l.granted, func() { l.expire(lost) })
			}
			l.ready, l.up = false, false
			l.tell()
			l.mu.Unlock()
		case zk.StateExpired:
			l.expired()
		}
	}
}

// attach says that the session can be used. l.mu is held.
func (l *life) attach() {
	if l.over == nil {
		l.ready = true
		l.again++
		l.tell()
	}
}

// authenticate gives the credentials on the first connection.
func (l *life) authenticate() {
	err := l.conn.AddAuth("digest", []byte(l.b.o.Username+":"+l.b.o.Password))
	switch {
	case err == nil:
		l.mu.Lock()
		l.told = true
		l.mu.Unlock()
	case refused(err):
		l.end(fmt.Errorf("%w: the server does not accept the credentials: %w", driver.ErrRefused, err))
	} // otherwise the connection was lost, and the next one has it done again
}

// authenticated is called when a server has accepted the credentials on the present connection.
func (l *life) authenticated() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attach()
}

// end ends the life because of err, at most once. It does not block.
func (l *life) end(err error) {
	l.mu.Lock()
	if l.over != nil {
		l.mu.Unlock()
		return
	}
	l.over, l.ready = err, false
	held := l.held
	l.held, l.watches, l.arming = nil, nil, nil
	if l.armer != nil {
		l.armer.Stop()
	}
	l.tell()
	l.mu.Unlock()
	l.cancel()
	go l.shut()
	for c := range held {
		c.lose(lostError{err})
	}
}

// shut ends go-zookeeper's goroutines, and the session.
func (l *life) shut() {
	defer l.b.lives.Done()
	defer l.kill()            // go-zookeeper leaves a connection open on which it was told that the session has expired
	if l.b.ctx.Err() != nil { // Close: in order, if a server answers
		defer time.AfterFunc(closeTime/2, l.kill).Stop()
	} else {
		l.kill()
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.conn.Close()
	}()
	for range l.events { // until it is closed
	}
	<-closed
	if l.b.ctx.Err() == nil {
		l.bury()
	}
}

// kill closes the connection.
func (l *life) kill() {
	l.mu.Lock()
	t := l.tap
	l.mu.Unlock()
	if t != nil {
		_ = t.Close()
	}
}

var _ net.Conn = (*tap)(nil)
