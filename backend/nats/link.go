package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

// connectTimeout is how long a request waits for a connection.
const connectTimeout = 2 * time.Second

// unreachable returns why there is no connection. cause may be nil.
func unreachable(cause error) error {
	return fmt.Errorf("no connection to NATS: does it run, and are address and password right? Last error: %w", cmp.Or(cause, natsgo.ErrDisconnected))
}

// Close implements driver.Backend. It also closes a connection that was made from a URL.
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

// request calls f once there is a connection and the bucket is known to be suitable. f's context also ends when the connection is lost:
// nats.go would wait for an answer that no longer comes. The error is classified. writes: without an answer the outcome is unknown.
func (b *Backend) request(ctx context.Context, writes bool, f func(ctx context.Context, js jetstream.JetStream) error) error {
	var err error
	b.mu.Lock()
	if b.js == nil {
		b.js, err = b.dial(ctx)
	}
	js := b.js
	b.mu.Unlock()
	if err != nil {
		return classify(ctx, unreachable(err), false)
	}
	nc := js.Conn()
	for began := time.Now(); !nc.IsConnected(); time.Sleep(5 * time.Millisecond) { // nats.go would queue the request until there is a connection
		if ctx.Err() != nil || time.Since(began) > connectTimeout {
			return classify(ctx, unreachable(nc.LastError()), false)
		}
	}
	bound, cancel := context.WithCancelCause(ctx)
	lost := nc.StatusChanged(natsgo.RECONNECTING, natsgo.CLOSED)
	defer nc.RemoveStatusListener(lost) // closes lost
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
	err = classify(ctx, err, writes)
	if last := nc.LastError(); errors.Is(err, context.DeadlineExceeded) && errors.Is(last, natsgo.ErrPermissionViolation) { // perhaps of another request
		err = fmt.Errorf("%w: a right may be missing: %w", err, last)
	}
	return err
}

// errMoved: the key's revision is not the one that the write expected. The write certainly had no effect.
var errMoved = errors.New("the key has another revision")

// classify gives an error of nats.go its driver class. sent: the request may have reached the server.
func classify(ctx context.Context, err error, sent bool) error {
	is := func(target error) bool { return errors.Is(err, target) }
	var answer *jetstream.APIError
	class := driver.ErrUnknown
	switch {
	case err == nil, is(driver.ErrRefused), is(driver.ErrUnavailable):
		return err
	case errors.As(err, &answer) && (answer.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || answer.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return errMoved
	// The stream's queue is full, or the storage of the account or the server.
	case answer != nil && (answer.Code == http.StatusTooManyRequests || answer.ErrorCode == 10002 || answer.ErrorCode == 10023):
		class = driver.ErrUnavailable
	// Other 4xx: the request is at fault.
	case answer != nil && answer.Code < 500, is(jetstream.ErrJetStreamNotEnabled), is(jetstream.ErrJetStreamNotEnabledForAccount),
		is(natsgo.ErrAuthorization), is(natsgo.ErrAuthExpired), is(natsgo.ErrAuthRevoked), lockurl.BadCertificate(err):
		class = driver.ErrRefused
	// Nobody serves the bucket. A closed connection does not count: it leaves the outcome unknown.
	case !sent, is(natsgo.ErrReconnectBufExceeded), is(jetstream.ErrNoStreamResponse):
		class = driver.ErrUnavailable
	}
	return fmt.Errorf("%w: %w", class, cmp.Or(ctx.Err(), err))
}
