package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

var (
	errClosed      = fmt.Errorf("%w: the backend or its client is closed", driver.ErrUnavailable)
	errUnreachable = fmt.Errorf("%w: etcd cannot be reached: is it running, is the address right, do both sides use TLS, and does etcd accept the client's certificate?", driver.ErrUnavailable)
)

// ready returns the client once it has a connection. clientv3 queues requests without one, for any length of time. If ready fails, nothing was
// sent. Its errors are classified.
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
		if conn == nil { // the caller's interfaces use another connection
			return client, nil
		}
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return client, nil
		case connectivity.Shutdown:
			return nil, errClosed
		case connectivity.TransientFailure:
			conn.ResetConnectBackoff() // it grows to two minutes, and lockport paces retries anyway
			return nil, errUnreachable
		}
		conn.Connect()
		if !conn.WaitForStateChange(ctx, state) {
			return nil, classify(ctx, ctx.Err(), false)
		}
	}
}

// drainTime is how long a request may still be answered after its connection has failed: a proxy or a server that stops lets it drain.
const drainTime = 50 * time.Millisecond

// do sends a request once the client has a connection. f's context ends soon after the connection fails: clientv3 would queue the request until
// the next one. The error is classified; for late, see classify.
func do[T any](ctx context.Context, b *Backend, late bool, f func(context.Context, *clientv3.Client) (T, error)) (answer T, err error) {
	client, err := b.ready(ctx)
	if err != nil {
		return answer, err
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if conn := client.ActiveConnection(); conn != nil {
		go func() {
			if conn.WaitForStateChange(ctx, connectivity.Ready) {
				select {
				case <-time.After(drainTime):
				case <-ctx.Done():
				}
			}
			cancel()
		}()
	}
	answer, err = f(ctx, client)
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled) {
		err = errors.New("the connection to etcd was lost before the answer") // if its caller ended it, classify says so
	}
	return answer, classify(caller, err, late)
}

// connect returns the client, or the call that creates our own. It is created at first use, since clientv3 requests a token then.
func (b *Backend) connect() (*clientv3.Client, *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil && b.connecting == nil {
		b.connecting = b.begin(func() (err error) {
			config := *b.config
			config.Context = b.ctx
			var client *clientv3.Client
			if config.Username != "" { // clientv3 does not say why it cannot get a token
				err = b.diagnose(b.ctx)
			}
			if err == nil {
				client, err = clientv3.New(config)
			}
			b.mu.Lock()
			b.client, b.connecting = client, nil
			b.mu.Unlock()
			if certain(err) {
				return err
			}
			return classify(context.Background(), err, false)
		})
	}
	return b.client, b.connecting
}

// diagnose dials all endpoints directly to find out why etcd is unreachable: gRPC reports that only as text. nil: an endpoint answers.
func (b *Backend) diagnose(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if b.config.TLS != nil {
		dial = (&tls.Dialer{Config: b.config.TLS}).DialContext
	}
	dialed := make(chan error, len(b.config.Endpoints))
	for _, addr := range b.config.Endpoints {
		go func() {
			conn, err := dial(ctx, "tcp", addr)
			if err == nil {
				err = conn.Close()
			}
			dialed <- err
		}()
	}
	for range b.config.Endpoints {
		failed := <-dialed
		switch {
		case failed == nil:
			return nil
		case err == nil:
			err = failed
		default:
			err = fmt.Errorf("%w; %w", err, failed)
		}
	}
	if lockurl.BadCertificate(err) {
		return fmt.Errorf("%w: the TLS handshake with etcd failed: check the CA, the client certificate and the server name: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%w (%w)", errUnreachable, err)
}

// plaintextPassword reports that our own client sends a password without TLS.
func (b *Backend) plaintextPassword() bool {
	return b.config != nil && b.config.Username != "" && b.config.TLS == nil
}

// call is an operation that many goroutines may wait for.
type call struct {
	began time.Time
	done  chan struct{}
	err   error // classified; valid once done is closed
}

// begin runs f on a goroutine that Close waits for. The mutex is held.
func (b *Backend) begin(f func() error) *call {
	c := &call{began: time.Now(), done: make(chan struct{}), err: errClosed}
	if b.ctx.Err() != nil {
		close(c.done)
		return c
	}
	b.running.Go(func() {
		c.err = f()
		close(c.done)
	})
	return c
}

// wait waits until c, which may be nil, is done. For late, see classify.
func (c *call) wait(ctx context.Context, late bool) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return classify(ctx, ctx.Err(), late)
	}
}
