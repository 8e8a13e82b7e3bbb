package peer

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Once is req without a place in the queue.
func Once(req driver.Request) driver.Request {
	req.Queue = false
	return req
}

// Reading is req as a reader's claim.
func Reading(req driver.Request) driver.Request {
	req.Shared = true
	return req
}

// Permit is req for one of n permits.
func Permit(req driver.Request, n int) driver.Request {
	req.Permits = n
	return req
}

// Takes makes the claim req on b, which must grant it. Like the functions below, it takes at most Soon.
func Takes(t testing.TB, b driver.Backend, req driver.Request) driver.Lease {
	t.Helper()
	return (&Peer{T: t, Of: b}).Takes(req)
}

// Fails makes the claim req on b, which must fail with an error of each class, and returns the error.
func Fails(t testing.TB, b driver.Backend, req driver.Request, classes ...error) error {
	t.Helper()
	err := ErrOf((&Peer{T: t, Of: b}).Try(req))
	require.Error(t, err, "%+v", req)
	for _, class := range classes {
		require.ErrorIs(t, err, class, "%+v", req)
	}
	return err
}

// Extends renews a lease of b, which must succeed, and returns its new validity.
func Extends(t testing.TB, b driver.Backend, lease driver.Lease) time.Time {
	t.Helper()
	until, err := (&Peer{T: t, Of: b}).Renews(lease)
	require.NoError(t, err)
	return until
}

// Shows returns what b says of name.
func Shows(t testing.TB, b driver.Inspector, name string) driver.Status {
	t.Helper()
	ctx, cancel := soon()
	defer cancel()
	st, err := b.Inspect(ctx, name)
	require.NoError(t, err)
	return st
}

// Lists returns the locks of b whose names begin with prefix.
func Lists(t testing.TB, b driver.Inspector, prefix string) []driver.Status {
	t.Helper()
	ctx, cancel := soon()
	defer cancel()
	all, err := b.List(ctx, prefix)
	require.NoError(t, err)
	return all
}

// Opened is Open, which must succeed. The caller closes the backend.
func Opened(t testing.TB, rawURL string) driver.Backend {
	t.Helper()
	b, err := Open(t.Context(), rawURL)
	require.NoError(t, err, rawURL)
	return b
}

// Client makes a lockport client of b that does not log, until the test ends.
func Client(t testing.TB, b driver.Backend, opts ...lockport.Option) *lockport.Client {
	t.Helper()
	c, err := lockport.New(b, append([]lockport.Option{lockport.Logger(nil)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Holds acquires a lock, within twice Soon: the first lock of some clients needs a new session.
func Holds(t testing.TB, c *lockport.Client, name string, opts ...lockport.AcquireOption) *lockport.Lock {
	t.Helper()
	lock, err := c.Acquire(Within(t, 2*Soon), name, opts...)
	require.NoError(t, err)
	return lock
}

// Notices checks the backend of rawURL, which must serve, and returns the IDs of its notices.
func Notices(t testing.TB, rawURL string) []string {
	t.Helper()
	notices, err := Check(t, rawURL)
	require.NoError(t, err)
	return IDs(notices)
}

// Refuses checks the backend of rawURL, which must fail as SaysOneLine requires.
func Refuses(t testing.TB, rawURL string, class error, what string) {
	t.Helper()
	SaysOneLine(t, ErrOf(Check(t, rawURL)), class, what)
}

// BadURLs opens each URL. That must fail, with one line that contains the URL's text but not the password "secret".
func BadURLs(t testing.TB, bad map[string]string) {
	t.Helper()
	for rawURL, what := range bad {
		err := ErrOf(Open(t.Context(), rawURL))
		require.ErrorContains(t, err, what, rawURL)
		require.NotContains(t, err.Error(), "secret", rawURL)
		require.NotContains(t, err.Error(), "\n", rawURL)
	}
}

// Via is rawURL with other addresses.
func Via(t testing.TB, rawURL string, addrs ...string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	u.Host = strings.Join(addrs, ",")
	return u.String()
}

// Ops recognizes the requests of operations. Every request counts as an operation that is missing.
type Ops map[conformance.Op]func(request []byte) bool

// Is reports whether request is of the operation op.
func (o Ops) Is(op conformance.Op, request []byte) bool {
	is, known := o[op]
	return !known || is(request)
}

// With recognizes requests that contain one of texts.
func With(texts ...string) func(request []byte) bool {
	return func(request []byte) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(request, []byte(text)) })
	}
}
