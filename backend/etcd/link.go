package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/lockport/lockport/driver"
)

// link leads to etcd: through the caller's client, or one of its own, made when it is first needed, since clientv3 asks the server as
// soon as it is made where there is a password.
type link struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	config *clientv3.Config // of the own client; nil: the caller's
	why    *reasons         // of the own client; nil: not known
	clear  bool             // the own client sends a password without TLS

	now atomic.Pointer[wires] // nil: not made yet

	mu     sync.Mutex
	making chan struct{} // closed when the attempt under way is over; nil: none
	failed error         // why the last attempt failed
	client *clientv3.Client
	reset  time.Time // when waiting for the next attempt to connect was last cut short
}

// wires are the services of etcd over one connection.
type wires struct {
	client *clientv3.Client
	conn   *grpc.ClientConn
	kv     pb.KVClient
	lease  pb.LeaseClient
	watch  pb.WatchClient
}

func newLink(client *clientv3.Client, config *clientv3.Config) *link {
	l := &link{config: config}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if client != nil {
		l.now.Store(newWires(client))
	}
	return l
}

func newWires(client *clientv3.Client) *wires {
	conn := client.ActiveConnection()
	return &wires{client, conn, pb.NewKVClient(conn), pb.NewLeaseClient(conn), pb.NewWatchClient(conn)}
}

var errClosed = fmt.Errorf("%w: the backend is closed", driver.ErrUnavailable)

// wires returns the services. Its errors are classified: nothing was asked for.
func (l *link) wires(ctx context.Context) (*wires, error) {
	for {
		if l.ctx.Err() != nil {
			return nil, errClosed
		}
		if w := l.now.Load(); w != nil {
			return w, nil
		}
		l.mu.Lock()
		making := l.making
		if making == nil {
			making = make(chan struct{})
			l.making = making
			go l.make()
		}
		l.mu.Unlock()
		select {
		case <-making:
		case <-ctx.Done():
			return nil, classify(ctx, ctx.Err(), false)
		}
		if l.now.Load() == nil {
			l.mu.Lock()
			err := l.failed
			l.mu.Unlock()
			return nil, err
		}
	}
}

// make makes the own client.
func (l *link) make() {
	config := *l.config
	config.Context = l.ctx
	client, err := clientv3.New(config) // where there is a password it waits for a connection, for as long as connectTimeout
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed = l.explain(classify(context.Background(), err, false))
	case l.ctx.Err() != nil:
		_ = client.Close()
		l.failed = errClosed
	default:
		l.client = client
		l.now.Store(newWires(client))
	}
	close(l.making)
	l.making = nil
}

// close closes what is our own.
func (l *link) close() error {
	l.cancel()
	l.mu.Lock()
	making := l.making
	l.mu.Unlock()
	if making != nil {
		<-making
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		return nil
	}
	err := l.client.Close()
	l.client = nil
	if errors.Is(err, context.Canceled) {
		err = nil // of the context that we gave it
	}
	return err
}

// trip tells whether a request has left. gRPC knows the peer of those that did.
type trip struct{ peer peer.Peer }

func (t *trip) sent() bool { return t.peer.Addr != nil }

// resetEvery is how often waiting for the next attempt to connect is cut short. gRPC's own pauses grow to two minutes, and who asks
// has paused already.
const resetEvery = time.Second

// fault classifies an error of a request that went over w and changes something.
func (l *link) fault(ctx context.Context, w *wires, t *trip, err error) error {
	if err == nil {
		return nil
	}
	if t.sent() {
		return classify(ctx, err, true)
	}
	if ctx.Err() == nil {
		l.mu.Lock()
		due := time.Since(l.reset) >= resetEvery
		if due {
			l.reset = time.Now()
		}
		l.mu.Unlock()
		if due {
			w.conn.ResetConnectBackoff()
		}
	}
	return l.explain(classify(ctx, err, false))
}

// explain adds to an error that says that nothing could be sent why it could not connect, where gRPC and clientv3 do not say.
func (l *link) explain(err error) error {
	if l.why == nil || !errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	if broken := l.why.tls.Load(); broken != nil {
		return rejection(broken)
	}
	if failed := l.why.dial.Load(); failed != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", classify(context.Background(), *failed, false), context.DeadlineExceeded)
	}
	return err
}

// reasons are why the last attempt to connect failed; nil: it did not.
type reasons struct {
	dial atomic.Pointer[error]
	tls  atomic.Pointer[tlsError]
}

// connect is how a client connects.
func (r *reasons) connect(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		r.dial.Store(&err)
	} else {
		r.dial.Store(nil)
	}
	return conn, err
}

// handshakes are TLS credentials that note why the last handshake failed: of that gRPC passes on the text alone. They also heed the
// configured server's name, over which clientv3's own, that of the endpoint, would win.
type handshakes struct {
	credentials.TransportCredentials
	name string // what the servers' certificates must be for; empty: the endpoint's host
	why  *reasons
}

// ClientHandshake implements credentials.TransportCredentials.
func (h *handshakes) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, cmp.Or(h.name, authority), raw)
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &cert), errors.As(err, &alert), errors.As(err, &plain):
		h.why.tls.Store(&tlsError{err})
	default:
		h.why.tls.Store(nil)
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.name, h.why}
}

// tlsError is a handshake that will not succeed until somebody changes something.
type tlsError struct{ cause error }

func (e *tlsError) Error() string {
	return fmt.Sprintf("the TLS handshake with etcd failed, check the CA, the client certificate and the server's name: %v", e.cause)
}

func (e *tlsError) Unwrap() error { return e.cause }
