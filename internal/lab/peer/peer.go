// Package peer calls a backend as one client would, for the backends' own tests.
package peer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
)

// Soon far exceeds the time of anything that should happen at once, even on a busy machine.
const Soon = 5 * time.Second

// Peer makes claims with its own backend, as another machine would. Methods take at most Soon, and fail the test if they return no error.
type Peer struct {
	T     testing.TB
	Of    driver.Backend
	Name  string                  // part of the owner ids of its requests
	TTL   time.Duration           // of its requests; 0: 10 s
	Heard func(owner string) bool // reports whether the servers can wake the claim of owner
}

// Request returns a new claim that asks to be queued.
func (p *Peer) Request(name string) driver.Request {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return driver.Request{Name: name, Owner: hex.EncodeToString(id[:]) + ":test/1/" + p.Name, TTL: cmp.Or(p.TTL, 10*time.Second), Queue: true}
}

// ErrOf is the error of a call.
func ErrOf[T any](_ T, err error) error { return err }

// Must is the result of a call, which must succeed: Must(f())(t).
func Must[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return result
	}
}

// Within is a context that ends with the test, or after limit.
func Within(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Soon)
}

// Always checks for d that ok stays true. Unlike require.Never, it leaves no check running when the test ends.
func Always(t testing.TB, d time.Duration, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		require.True(t, ok(), what)
	}
}

// Until waits until ok returns true, and fails the test after Soon.
func Until(t testing.TB, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > Soon {
			t.Fatalf("not within %v", Soon)
		}
	}
}

// Try attempts the claim req.
func (p *Peer) Try(req driver.Request) (driver.Lease, error) {
	ctx, cancel := soon()
	defer cancel()
	return p.Of.TryAcquire(ctx, req)
}

// Takes makes the claim req, which must succeed.
func (p *Peer) Takes(req driver.Request) driver.Lease {
	p.T.Helper()
	lease, err := p.Try(req)
	require.NoError(p.T, err)
	return lease
}

// TakesSoon repeats the claim until it is granted.
func (p *Peer) TakesSoon(req driver.Request) (lease driver.Lease) {
	p.T.Helper()
	Until(p.T, func() bool {
		var err error
		lease, err = p.Try(req)
		return err == nil
	})
	return lease
}

// Waits makes the claim req, which must find the name held, and returns the error.
func (p *Peer) Waits(req driver.Request) *driver.HeldError {
	p.T.Helper()
	var h *driver.HeldError
	require.ErrorAs(p.T, ErrOf(p.Try(req)), &h)
	return h
}

// Releases releases lease.
func (p *Peer) Releases(lease driver.Lease) error {
	ctx, cancel := soon()
	defer cancel()
	return lease.Release(ctx)
}

// Frees releases lease, which must succeed.
func (p *Peer) Frees(lease driver.Lease) {
	p.T.Helper()
	require.NoError(p.T, p.Releases(lease))
}

// Renews renews lease and returns its new validity.
func (p *Peer) Renews(lease driver.Lease) (time.Time, error) {
	ctx, cancel := soon()
	defer cancel()
	return driver.Renew(ctx, p.Of, lease)
}

// Abandons abandons req.
func (p *Peer) Abandons(req driver.Request) {
	p.T.Helper()
	ctx, cancel := soon()
	defer cancel()
	require.NoError(p.T, p.Of.Abandon(ctx, req))
}

// Notified registers req until the test ends. The channel receives a value for each wake-up from now on.
func (p *Peer) Notified(req driver.Request) <-chan struct{} {
	p.T.Helper()
	woken := make(chan struct{}, 1000)
	p.T.Cleanup(p.Of.(driver.Notifier).Notify(req, func() { woken <- struct{}{} }))
	Until(p.T, func() bool { return p.Heard(req.Owner) })
	for len(woken) > 0 {
		<-woken
	}
	return woken
}

// OnRequest calls f in the background once n more requests, or connections for them, have reached a frozen proxy. It calls f after half a second at
// the latest: the proxy does not see a request on a connection that was made while it was frozen.
func OnRequest(proxy *faultproxy.Proxy, n int64, f func()) {
	come := func() int64 { return proxy.Requests() + int64(proxy.Conns()) }
	want, end := come()+n, time.Now().Add(500*time.Millisecond)
	go func() {
		for come() < want && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
		f()
	}()
}

// Eventually waits for a value from c.
func Eventually[T any](t testing.TB, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(Soon):
		t.Fatalf("nothing received within %v", Soon)
	}
	return got
}

// Proxy makes a proxy to a server, until the test ends.
func Proxy(t testing.TB, addr string) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.New(addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// Acquiring acquires in the background, until the test ends at the latest. The channel receives the lock.
func Acquiring(t testing.TB, c *lockport.Client, name string, opts ...lockport.AcquireOption) <-chan *lockport.Lock {
	ctx, cancel := context.WithCancel(context.Background())
	got, done := make(chan *lockport.Lock, 1), make(chan struct{})
	go func() {
		defer close(done)
		lock, err := c.Acquire(ctx, name, opts...)
		if err == nil {
			got <- lock
		} else if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return got
}

// Open opens the backend of a URL as lockport.Open does, but does not check the server.
func Open(_ context.Context, rawURL string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	return b, err
}

// Main is the TestMain of a backend's package. parallel is how many tests run at a time; 0: the default. Tests that mostly wait need more than the
// machine has processors. The testing package ends the process with the status of m.Run.
func Main(m *testing.M, parallel int) {
	conformance.WorkerMain(Open)
	flag.Parse()
	if parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// Check checks the backend of rawURL.
func Check(t testing.TB, rawURL string) ([]driver.Notice, error) {
	t.Helper()
	b, err := Open(t.Context(), rawURL)
	require.NoError(t, err)
	defer func() { _ = b.Close() }()
	notices, err := b.(driver.Checker).Check(Within(t, 2*Soon))
	for _, n := range notices {
		require.NotEmpty(t, n.Text, n.ID)
		require.NotEmpty(t, n.Remedy, n.ID)
	}
	return notices, err
}

// IDs returns the IDs of notices. Those of unknown findings end with "?".
func IDs(notices []driver.Notice) (ids []string) {
	for _, n := range notices {
		if n.Unknown {
			n.ID += "?"
		}
		ids = append(ids, n.ID)
	}
	return ids
}

// SaysOneLine checks a user-facing error of class: it must be one line that contains what but not the password "secret".
func SaysOneLine(t testing.TB, err, class error, what string) {
	t.Helper()
	require.ErrorIs(t, err, class)
	require.ErrorContains(t, err, what)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "secret")
}
