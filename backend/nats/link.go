package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/driver"
)

// link is the connection to NATS: the caller's, or one of a URL, which is made when it is first needed.
type link struct {
	mu   sync.Mutex
	js   jetstream.JetStream                                     // nil: not made yet
	dial func(within time.Duration) (jetstream.JetStream, error) // makes a connection that close closes; nil: js is the caller's, or the link is closed
}

// connectTimeout is how long a request waits for a connection.
const connectTimeout = 2 * time.Second

var errUnreachable = errors.New("NATS cannot be reached: is it running, and is the address right?")

func (l *link) open(ctx context.Context) (js jetstream.JetStream, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.js != nil:
	case l.dial == nil:
		err = natsgo.ErrConnectionClosed
	default:
		within := connectTimeout
		if end, ok := ctx.Deadline(); ok {
			within = min(within, max(time.Until(end), time.Millisecond))
		}
		if l.js, err = l.dial(within); err != nil {
			l.js, err = nil, errors.Join(errUnreachable, err)
		}
	}
	return l.js, err
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dial != nil && l.js != nil {
		l.js.Conn().Close()
	}
	l.dial = nil
}

// up waits until the connection is up. What it refuses was certainly not sent: nats.go would keep a request until there is a connection.
func up(ctx context.Context, nc *natsgo.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, errUnreachable)
	defer cancel()
	for !nc.IsConnected() {
		select {
		case <-time.After(5 * time.Millisecond):
			if nc.IsClosed() {
				return natsgo.ErrConnectionClosed
			}
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), nc.LastError())
		}
	}
	return nil
}

// request calls f when there is a connection and the bucket is known to be fit. f's context ends when the connection is lost, too: nats.go goes on
// to wait for an answer that no longer comes. The error is classified. writes: without an answer the outcome is unknown.
func (b *Backend) request(ctx context.Context, writes bool, f func(ctx context.Context, js jetstream.JetStream) error) error {
	js, err := b.link.open(ctx)
	if err == nil {
		err = up(ctx, js.Conn())
	}
	if err != nil {
		return classify(ctx, err, false)
	}
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := js.Conn().StatusChanged(natsgo.RECONNECTING, natsgo.CLOSED)
	defer js.Conn().RemoveStatusListener(lost) // which closes it
	go func() {
		if _, ok := <-lost; ok {
			cancel(natsgo.ErrDisconnected)
		}
	}()
	if !b.fit.Load() {
		if _, err := b.verify(bound, js); err != nil {
			return classify(ctx, err, false)
		}
		b.fit.Store(true)
	}
	if err = f(bound, js); errors.Is(err, context.Canceled) {
		err = context.Cause(bound)
	}
	return classify(ctx, err, writes)
}

// errMoved says that the key's last revision was another than the write expected. The write certainly had no effect.
var errMoved = errors.New("the key has another revision")

// answers are those of the server after which a request certainly had no effect.
var answers = map[jetstream.ErrorCode]error{
	jetstream.JSErrCodeStreamWrongLastSequence:         errMoved,
	jetstream.JSErrCodeStreamWrongLastSequenceConstant: errMoved,
	jetstream.JSErrCodeJetStreamNotEnabled:             fmt.Errorf("%w: JetStream is not enabled on this server", driver.ErrRefused),
	jetstream.JSErrCodeJetStreamNotEnabledForAccount:   fmt.Errorf("%w: JetStream is not enabled for this account", driver.ErrRefused),
	jetstream.JSErrCodeStreamNotFound:                  fmt.Errorf("%w: there is no such bucket: make it with nats.CreateBucket", driver.ErrRefused),
	10166 /* message TTL disabled */ :                  fmt.Errorf("%w: the bucket has no TTL for each key: make it with nats.CreateBucket", driver.ErrRefused),
}

// classify puts an error of nats.go into a class of the driver. sent: the request may have reached the server.
func classify(ctx context.Context, err error, sent bool) error {
	is := func(target error) bool { return errors.Is(err, target) }
	var answer *jetstream.APIError
	class := driver.ErrUnknown
	switch {
	case err == nil, is(driver.ErrRefused), is(driver.ErrUnavailable):
		return err
	case errors.As(err, &answer) && answers[answer.ErrorCode] != nil:
		return answers[answer.ErrorCode]
	case is(natsgo.ErrAuthorization), is(natsgo.ErrAuthExpired), is(natsgo.ErrAuthRevoked):
		class = driver.ErrRefused
	case !sent, is(natsgo.ErrReconnectBufExceeded), is(jetstream.ErrNoStreamResponse): // nobody serves the bucket; a connection that is closed is no answer
		class = driver.ErrUnavailable
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: no answer from NATS: %w", class, ctx.Err())
	}
	return fmt.Errorf("%w: %w", class, err)
}
