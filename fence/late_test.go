package fence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) {
	os.Exit(fencetest.Main(m, map[string]fencetest.Kind{
		"a service": {Store: service, Locks: redisLocks},
	}))
}

func redisLocks(ctx context.Context, target string, ttl time.Duration) (*lockport.Client, error) {
	return lockport.Open(ctx, target, lockport.TTL(ttl), lockport.Logger(slog.New(slog.DiscardHandler)))
}

// Holders that were stopped, and lost their locks without knowing, write late to a service that has its data in memory.
func TestLateWritesToAService(t *testing.T) {
	locks := servers.SharedRedis(t).URL()
	run := func(t *testing.T, fenced bool) fencetest.Run {
		s := httptest.NewServer(&numbers{fenced: fenced, values: map[string]int64{}})
		t.Cleanup(s.Close)
		return fencetest.Run{Kind: "a service", Store: s.URL, Locks: locks}
	}
	t.Run("fenced", func(t *testing.T) { fencetest.Refuses(t, run(t, true)) })
	t.Run("not fenced", func(t *testing.T) { fencetest.Loses(t, run(t, false)) })
}

// numbers is a service that keeps a number for each path. PUT writes, GET reads; the header Fencing-Token is the holder's.
type numbers struct {
	fence  fence.Memory
	fenced bool
	mu     sync.Mutex
	values map[string]int64
}

func (n *numbers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	do := n.fence.Do
	if !n.fenced || r.Header.Get("Fencing-Token") == "" {
		do = func(_ context.Context, _ string, _ lockport.Token, fn func() error) error { return fn() }
	}
	token, _ := strconv.ParseUint(r.Header.Get("Fencing-Token"), 10, 64)
	err := do(r.Context(), r.URL.Path, lockport.Token(token), func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if r.Method == http.MethodGet {
			_, err := fmt.Fprint(w, n.values[r.URL.Path])
			return err
		}
		value, err := strconv.ParseInt(r.URL.Query().Get("value"), 10, 64)
		n.values[r.URL.Path] = value
		return err
	})
	switch {
	case errors.Is(err, fence.ErrStale):
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// client is the service, seen from a holder.
type client struct{ url string }

func service(_ context.Context, target string) (fencetest.Store, error) { return client{target}, nil }

func (c client) Begin(ctx context.Context, l *lockport.Lock) (int64, func(context.Context, int64) error, error) {
	token, _ := l.Token()
	value, err := c.call(ctx, http.MethodGet, l.Name(), token, 0)
	return value, func(ctx context.Context, value int64) error {
		_, err := c.call(ctx, http.MethodPut, l.Name(), token, value)
		return err
	}, err
}

func (c client) Value(ctx context.Context, name string) (int64, error) {
	return c.call(ctx, http.MethodGet, name, 0, 0)
}

func (client) Close() error { return nil }

func (c client) call(ctx context.Context, method, name string, token lockport.Token, value int64) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s/%s?value=%d", c.url, url.PathEscape(name), value), nil)
	if err != nil {
		return 0, err
	}
	if token > 0 {
		r.Header.Set("Fencing-Token", strconv.FormatUint(uint64(token), 10))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	text := strings.TrimSpace(string(body))
	switch {
	case err != nil:
		return 0, err
	case answer.StatusCode == http.StatusPreconditionFailed:
		return 0, fmt.Errorf("%w: %s", fence.ErrStale, text)
	case answer.StatusCode != http.StatusOK:
		return 0, errors.New(text)
	case method == http.MethodPut:
		return value, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// Two goroutines of one process, one lock, no request to the lock's server between them: the first one is refused all the same.
func TestMemoryRefusesTheHoldBeforeAHandOff(t *testing.T) {
	c, err := redisLocks(t.Context(), servers.SharedRedis(t).URL(), 30*time.Second)
	require.NoError(t, err)
	defer c.Close()
	before, after := fencetest.HandOff(t, c, t.Name()+strconv.FormatInt(time.Now().UnixNano(), 36))
	first, _ := before.Token()
	second, _ := after.Token()
	require.Equal(t, first/1024, second/1024, "one grant of the server's")
	var m fence.Memory
	require.NoError(t, m.Register(t.Context(), "n", first))
	require.NoError(t, m.Register(t.Context(), "n", second))
	require.ErrorIs(t, m.Register(t.Context(), "n", first), fence.ErrStale)
}
