package lockport_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// checked is a backend with a scripted Check.
type checked struct {
	driver.Backend
	notices []driver.Notice
	err     error
	slow    time.Duration // whatever its context
	closed  *bool
}

func (b checked) Check(context.Context) ([]driver.Notice, error) {
	time.Sleep(b.slow)
	return b.notices, b.err
}

func (b checked) Close() error {
	*b.closed = true
	return b.Backend.Close()
}

// mux knows the scheme fake, which opens b.
func mux(b driver.Backend, got *lockport.SchemeOptions) *lockport.Mux {
	var m lockport.Mux
	m.Register(lockport.Scheme{Name: "fake", Open: func(u *url.URL, o lockport.SchemeOptions) (driver.Backend, error) {
		*got = o
		if u.RawQuery != "" {
			return nil, errors.New("unknown parameter")
		}
		return b, nil
	}})
	return &m
}

func TestOpenChecksTheServer(t *testing.T) {
	var o lockport.SchemeOptions
	var closed bool
	var log strings.Builder
	b := checked{Backend: memorytest.NewBackend(nil, nil), closed: &closed, notices: []driver.Notice{
		{ID: "eviction", Text: "locks may be evicted", Remedy: "set noeviction"},
	}}
	m := mux(b, &o)
	c := peer.Must(m.Open(t.Context(), "fake://host?ttl=20s", lockport.Logger(slog.New(slog.NewTextHandler(&log, nil)))))(t)
	require.Equal(t, 20*time.Second, o.TTL)
	require.Regexp(t, "locks may be evicted.*set noeviction", log.String())
	require.Equal(t, b.notices, c.Notices())
	asked := time.Now()
	l := peer.Must(c.TryAcquire(t.Context(), "a"))(t)
	deadline, _ := l.Deadline()
	require.InDelta(t, 18.99, deadline.Sub(asked).Seconds(), 0.5)
	require.NoError(t, c.Close())
	require.True(t, closed)

	closed = false
	b.err = driver.ErrRefused
	require.ErrorIs(t, peer.ErrOf(mux(b, &o).Open(t.Context(), "fake://host?ttl=20s", lockport.TTL(30*time.Second))), lockport.ErrRefused)
	require.Equal(t, 30*time.Second, o.TTL, "an option overrides the URL")
	require.True(t, closed, "if Open fails, it closes the backend")

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, peer.ErrOf(mux(checked{Backend: memorytest.NewBackend(nil, nil), closed: new(bool), slow: time.Minute}, &o).Open(ctx, "fake://host")), lockport.ErrUnavailable)
		require.Equal(t, time.Second, time.Since(start), "it waits for no call of the driver")
		time.Sleep(2 * time.Minute)
	})
}

func TestOpenRefusesBadURLs(t *testing.T) {
	var o lockport.SchemeOptions
	m := mux(memorytest.NewBackend(nil, nil), &o)
	const secret = "s3cret"
	for rawURL, want := range map[string]string{
		"nonsense://host":                    `unknown scheme "nonsense" in the lock URL; known: fake`,
		"host":                               `unknown scheme ""`,
		"fake://host?ttl=soon":               `bad duration "soon" of the URL parameter ttl`,
		"fake://host?ttl=-1s":                `bad duration "-1s"`,
		"fake://host?x=1":                    "unknown parameter",
		"fake://u:" + secret + "%zz@host":    "percent-encode special characters in the password",
		"fake://u:" + secret + "@host:port":  "check its scheme, host and port",
		"fake://u:1?" + secret + "@host":     "percent-encode special characters in the password",
		"fake://u:1?ttl=" + secret + "@h":    "percent-encode special characters in the password",
		"fake://u:1?" + secret + "=x@host":   "percent-encode special characters in the password",
		"fake://u?ttl=a&ttl=" + secret + "@": "percent-encode special characters in the password",
		"fake://u:/" + secret + "@host":      "percent-encode special characters in the password",
		"fake://u:1#" + secret + "@host":     "percent-encode special characters in the password",
		"fake://h?addr=u:" + secret + "%40i": "give user and password once",
		"fake:u:" + secret + "@host":         "percent-encode special characters in the password",
		"fa ke://u:" + secret + "@host":      "cannot be parsed",
		"fake://h1:1,[::1]:2":                "IPv6 addresses",
	} {
		_, err := m.Open(t.Context(), rawURL)
		require.ErrorContains(t, err, want, rawURL)
		require.ErrorIs(t, err, lockport.ErrInvalidOption)
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, err.Error(), "\n")
	}
	require.ErrorContains(t, peer.ErrOf(new(lockport.Mux).Open(t.Context(), "redis://localhost")), "import a backend")
	require.ErrorIs(t, peer.ErrOf(m.Open(t.Context(), "fake://host", lockport.TTL(0))), lockport.ErrInvalidOption)
	require.Panics(t, func() { m.Register(lockport.Scheme{Name: "fake"}) }, "a scheme has one backend")
	require.Len(t, m.Schemes(), 1)
}
