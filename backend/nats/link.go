package nats

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// link is the connection to NATS: the caller's, or one of a URL, which is made when it is first needed.
type link struct {
	fit atomic.Bool // so the bucket was found

	mu    sync.Mutex                                              // guards dial and the making of js and reads
	dial  func(within time.Duration) (jetstream.JetStream, error) // makes a connection that Close closes; nil: the caller's, or closed
	js    jetstream.JetStream
	reads natsgo.JetStreamContext // the older API, which alone reads a key at the stream's leader: the newer one asks any replica, which may lag
}

const (
	connectTimeout = 2 * time.Second
	// patience is how long a request waits until it looks whether its connection is still there.
	patience = 50 * time.Millisecond
)

var errUnreachable = errors.New("NATS cannot be reached: is it running, and is the address right?")

// connect makes the connection if there is none.
func (l *link) connect(ctx context.Context) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.js != nil {
		return nil
	}
	if l.dial == nil {
		return natsgo.ErrConnectionClosed
	}
	within := connectTimeout
	if end, ok := ctx.Deadline(); ok {
		within = min(within, max(time.Until(end), time.Millisecond))
	}
	if l.js, err = l.dial(within); err != nil {
		l.js = nil
		return errors.Join(errUnreachable, err)
	}
	l.reads, err = l.js.Conn().JetStream()
	return err
}

// up waits until the connection is up. What it refuses was certainly not sent: nats.go would keep a request until there is a connection.
func up(ctx context.Context, nc *natsgo.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, errUnreachable)
	defer cancel()
	for !nc.IsConnected() {
		select {
		case <-time.After(patience / 10):
			if nc.IsClosed() {
				return natsgo.ErrConnectionClosed
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// request calls f when there is a connection and the bucket is known to be fit. f's context ends when the connection is lost, too: nats.go goes on
// to wait for an answer that no longer comes. The error is classified. writes: without an answer the outcome is unknown.
func (b *Backend) request(ctx context.Context, writes bool, f func(ctx context.Context) error) error {
	if err := b.link.connect(ctx); err != nil {
		return classify(ctx, err, false)
	}
	nc := b.link.js.Conn()
	if err := up(ctx, nc); err != nil {
		return classify(ctx, err, false)
	}
	before := nc.Stats().Reconnects
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var look func()
	look = func() {
		if !nc.IsConnected() || nc.Stats().Reconnects != before {
			cancel(natsgo.ErrDisconnected)
		} else if bound.Err() == nil {
			time.AfterFunc(patience, look)
		}
	}
	defer time.AfterFunc(patience, look).Stop()
	if !b.link.fit.Load() {
		if _, err := b.verify(bound); err != nil {
			return classify(ctx, err, false)
		}
		b.link.fit.Store(true)
	}
	err := f(bound)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(bound)
	}
	return classify(ctx, err, writes)
}
