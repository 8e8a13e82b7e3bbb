package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/batch"
)

// link leads to etcd: through the caller's client, or one of a URL. That is made when it is first needed, since clientv3 asks for a token as
// soon as it is made.
type link struct {
	config *clientv3.Config // of the own client; nil: the caller's
	making batch.Queue[struct{}, error]

	connecting sync.Mutex // held while it is made

	mu     sync.Mutex
	client *clientv3.Client
	reset  time.Time // when gRPC's pause before the next attempt to connect was last cut short
}

// resetEvery is how often that pause is cut short: it grows to two minutes, and lockport pauses by itself.
const resetEvery = time.Second

var (
	errClosed      = fmt.Errorf("%w: the backend or its client is closed", driver.ErrUnavailable)
	errUnreachable = fmt.Errorf("%w: etcd cannot be reached: is it running, is the address right, and does TLS suit both sides?", driver.ErrUnavailable)
)

// ready returns the client once it has a connection. clientv3 keeps a request until there is one, however long that takes; what ready
// refuses was certainly not sent. Its errors are classified.
func (b *Backend) ready(ctx context.Context) (*clientv3.Client, error) {
	l := b.link
	for {
		l.mu.Lock()
		client := l.client
		l.mu.Unlock()
		switch {
		case b.ctx.Err() != nil:
			return nil, errClosed
		case client == nil:
			failed, _, err := l.making.Do(ctx, struct{}{})
			if err = cmp.Or(failed, classify(ctx, err, false)); err != nil {
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
			l.mu.Lock()
			defer l.mu.Unlock()
			if time.Since(l.reset) >= resetEvery {
				l.reset = time.Now()
				conn.ResetConnectBackoff()
			}
			return nil, errUnreachable
		}
		conn.Connect()
		if !conn.WaitForStateChange(ctx, state) {
			return nil, classify(ctx, ctx.Err(), false)
		}
	}
}

// connected is ctx, but ends when there is no connection any more, too: clientv3 would keep what it has not sent until there is another.
func connected(ctx context.Context, client *clientv3.Client) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if conn := client.ActiveConnection(); conn != nil {
		go func() {
			conn.WaitForStateChange(ctx, connectivity.Ready)
			cancel()
		}()
	}
	return ctx, cancel
}

// connect makes the own client.
func (b *Backend) connect(_ context.Context, all []struct{}) []error {
	l := b.link
	l.connecting.Lock()
	defer l.connecting.Unlock()
	config := *l.config
	config.Context = b.ctx
	err := b.ctx.Err()
	if err == nil && config.Username != "" { // clientv3 says nothing of why it cannot ask for a token
		err = l.dial(b.ctx)
	}
	if err == nil && l.client == nil {
		var client *clientv3.Client
		if client, err = clientv3.New(config); err == nil {
			l.mu.Lock()
			l.client = client
			l.mu.Unlock()
		}
	}
	errs := make([]error, len(all))
	for i := range errs {
		if errs[i] = err; !certain(err) {
			errs[i] = classify(context.Background(), err, false)
		}
	}
	return errs
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

// close closes the own client.
func (l *link) close() error {
	l.connecting.Lock()
	defer l.connecting.Unlock()
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
