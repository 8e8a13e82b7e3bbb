package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/driver"
)

// connectTimeout is how long a request waits for a connection.
const connectTimeout = 2 * time.Second

var errUnreachable = errors.New("NATS cannot be reached: is it running, and is the address right?")

// connection returns the connection, which it makes of a URL where that is needed.
func (b *Backend) connection(ctx context.Context) (js jetstream.JetStream, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.js == nil {
		b.js, err = b.dial(ctx)
	}
	return b.js, err
}

// Close implements driver.Backend. It closes the connection too if that was made of a URL.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dial != nil {
		if b.js != nil {
			b.js.Conn().Close()
		}
		b.js, b.dial = nil, func(context.Context) (jetstream.JetStream, error) { return nil, natsgo.ErrConnectionClosed }
	}
	return nil
}

// request calls f when there is a connection and the bucket is known to be fit. f's context ends when the connection is lost, too: nats.go goes on
// to wait for an answer that no longer comes. The error is classified. writes: without an answer the outcome is unknown.
func (b *Backend) request(ctx context.Context, writes bool, f func(ctx context.Context, js jetstream.JetStream) error) error {
	js, err := b.connection(ctx)
	if err != nil {
		return classify(ctx, errors.Join(errUnreachable, err), false)
	}
	nc := js.Conn()
	for began := time.Now(); !nc.IsConnected(); time.Sleep(5 * time.Millisecond) { // nats.go would keep the request until there is a connection
		if ctx.Err() != nil || time.Since(began) > connectTimeout {
			return classify(ctx, errors.Join(errUnreachable, nc.LastError()), false)
		}
	}
	bound, cancel := context.WithCancelCause(ctx)
	lost := nc.StatusChanged(natsgo.RECONNECTING, natsgo.CLOSED)
	defer nc.RemoveStatusListener(lost) // which closes it
	go func() {
		<-lost
		cancel(natsgo.ErrDisconnected)
	}()
	if !b.fit.Load() {
		_, err = b.verify(bound, js)
		writes = writes && err == nil
		b.fit.Store(err == nil)
	}
	if err == nil {
		err = f(bound, js)
	}
	if errors.Is(err, context.Canceled) {
		err = context.Cause(bound)
	}
	return classify(ctx, err, writes)
}

// errMoved says that the key's last revision was another than the write expected. The write certainly had no effect.
var errMoved = errors.New("the key has another revision")

// classify puts an error of nats.go into a class of the driver. sent: the request may have reached the server.
func classify(ctx context.Context, err error, sent bool) error {
	is := func(target error) bool { return errors.Is(err, target) }
	var answer *jetstream.APIError
	class := driver.ErrUnknown
	switch {
	case err == nil, is(driver.ErrRefused), is(driver.ErrUnavailable):
		return err
	case errors.As(err, &answer) && (answer.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || answer.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return errMoved
	case answer != nil && answer.Code < 500, is(jetstream.ErrJetStreamNotEnabled), is(jetstream.ErrJetStreamNotEnabledForAccount), // 4xx: it is at fault itself
		is(natsgo.ErrAuthorization), is(natsgo.ErrAuthExpired), is(natsgo.ErrAuthRevoked):
		class = driver.ErrRefused
	case !sent, is(natsgo.ErrReconnectBufExceeded), is(jetstream.ErrNoStreamResponse): // nobody serves the bucket; a connection that is closed is no answer
		class = driver.ErrUnavailable
	}
	return fmt.Errorf("%w: %w", class, cmp.Or(ctx.Err(), err))
}
