package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/lockport/lockport/driver"
)

// link leads to etcd: through the caller's client, or one of a URL. That is made when it is first needed, since clientv3 asks for a token as
// soon as it is made.
type link struct {
	config *clientv3.Config // of the own client; nil: the caller's

	// Guarded by Backend.mu.
	client     *clientv3.Client
	connecting *call // makes the own client; nil: not now
}

var (
	errClosed      = fmt.Errorf("%w: the backend or its client is closed", driver.ErrUnavailable)
	errUnreachable = fmt.Errorf("%w: etcd cannot be reached: is it running, is the address right, and does TLS suit both sides?", driver.ErrUnavailable)
)

// ready returns the client once it has a connection. clientv3 keeps a request until there is one, however long that takes; what ready
// refuses was certainly not sent. Its errors are classified.
func (b *Backend) ready(ctx context.Context) (*clientv3.Client, error) {
	for {
		client, connecting := b.connect()
		switch {
		case b.ctx.Err() != nil:
			return nil, errClosed
		case client == nil:
			if err := connecting.wait(ctx, false); err != nil {
				return nil, err
			}
			continue
		}
		conn := client.ActiveConnection()
		if conn == nil { // the caller's interfaces lead elsewhere
			return client, nil
		}
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return client, nil
		case connectivity.Shutdown:
			return nil, errClosed
		case connectivity.TransientFailure:
			conn.ResetConnectBackoff() // which grows to two minutes, and lockport pauses by itself
			return nil, errUnreachable
		}
		conn.Connect()
		if !conn.WaitForStateChange(ctx, state) {
			return nil, classify(ctx, ctx.Err(), false)
		}
	}
}

// patience is how long a request has for itself before do looks after it: most need less, and cost no goroutine.
const patience = 50 * time.Millisecond

// do makes a request of the client, once that has a connection. f's context ends soon when there is none any more, too: clientv3 would keep what
// it has not sent until there is another. The error is classified; late is what classify asks for.
func do[T any](ctx context.Context, b *Backend, late bool, f func(context.Context, *clientv3.Client) (T, error)) (answer T, err error) {
	client, err := b.ready(ctx)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if conn := client.ActiveConnection(); conn != nil {
		look := time.AfterFunc(patience, func() {
			conn.WaitForStateChange(ctx, connectivity.Ready)
			cancel()
		})
		defer look.Stop()
	}
	answer, err = f(ctx, client)
	return answer, classify(ctx, err, late)
}

// connect returns the client, or what makes the own one.
func (b *Backend) connect() (*clientv3.Client, *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.link
	if l.client == nil && l.connecting == nil {
		l.connecting = b.begin(func(*call) (err error) {
			config := *l.config
			config.Context = b.ctx
			var client *clientv3.Client
			if config.Username != "" { // clientv3 says nothing of why it cannot ask for a token
				err = l.dial(b.ctx)
			}
			if err == nil {
				client, err = clientv3.New(config)
			}
			b.mu.Lock()
			l.client, l.connecting = client, nil
			b.mu.Unlock()
			if certain(err) {
				return err
			}
			return classify(context.Background(), err, false)
		})
	}
	return l.client, l.connecting
}

// dial looks why etcd cannot be reached, by a connection of its own, since gRPC says it in words alone. nil: one of the endpoints can be.
func (l *link) dial(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if l.config.TLS != nil {
		dial = (&tls.Dialer{Config: l.config.TLS}).DialContext
	}
	for _, addr := range l.config.Endpoints {
		conn, failed := dial(ctx, "tcp", addr)
		if failed == nil {
			return conn.Close()
		}
		err = failed
	}
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	if errors.As(err, &cert) || errors.As(err, &alert) {
		return fmt.Errorf("%w: the TLS handshake with etcd failed, check the CA, the client certificate and the server's name: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%w (%w)", errUnreachable, err)
}

// close closes the own client, which nobody makes any more.
func (l *link) close() error {
	if l.config == nil || l.client == nil {
		return nil
	}
	if err := l.client.Close(); !errors.Is(err, context.Canceled) { // of the context that we gave it
		return err
	}
	return nil
}

// clear reports that the own client sends a password without TLS.
func (l *link) clear() bool { return l.config != nil && l.config.Username != "" && l.config.TLS == nil }

// call is something under way that many may wait for.
type call struct {
	began time.Time
	done  chan struct{}
	err   error // classified; once done is closed
}

// begin begins f on a goroutine that Close waits for. The mutex is held.
func (b *Backend) begin(f func(*call) error) *call {
	c := &call{began: time.Now(), done: make(chan struct{}), err: errClosed}
	if b.ctx.Err() != nil {
		close(c.done)
		return c
	}
	b.running.Go(func() {
		c.err = f(c)
		close(c.done)
	})
	return c
}

// wait waits until c, which may be nil, is done. late: as for classify.
func (c *call) wait(ctx context.Context, late bool) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	select {
	case <-c.done:
		return c.err
	default:
		return classify(ctx, ctx.Err(), late)
	}
}
