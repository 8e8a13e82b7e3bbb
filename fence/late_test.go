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
	os.Exit(fencetest.Main(m, redisLocks, fencetest.Stores{"": openService}))
}

func redisLocks(ctx context.Context, target string, ttl time.Duration) (*lockport.Client, error) {
	return lockport.Open(ctx, target, lockport.TTL(ttl), lockport.Logger(slog.New(slog.DiscardHandler)))
}

// Holders that were stopped and lost their locks unknowingly write late to a service with its data in memory.
func TestLateWritesToAService(t *testing.T) {
	s := httptest.NewServer(&service{values: map[string]int64{}})
	t.Cleanup(s.Close)
	fencetest.Late(t, fencetest.Place{Store: s.URL, Locks: servers.SharedRedis(t).URL()}, nil, fencetest.Bare, fencetest.ByToken)
}

// service keeps a number for each path: PUT writes it, GET reads it. The optional header Fencing-Token is the holder's token.
type service struct {
	fence  fence.Memory
	mu     sync.Mutex
	values map[string]int64
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	do := s.fence.Do
	header := r.Header.Get("Fencing-Token")
	if header == "" {
		do = func(_ context.Context, _ string, _ lockport.Token, fn func() error) error { return fn() }
	}
	token, _ := strconv.ParseUint(header, 10, 64)
	err := do(r.Context(), r.URL.Path, lockport.Token(token), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodPut {
			s.values[r.URL.Path], _ = strconv.ParseInt(r.URL.Query().Get("value"), 10, 64)
		}
		_, err := fmt.Fprint(w, s.values[r.URL.Path])
		return err
	})
	switch {
	case errors.Is(err, fence.ErrStale):
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest) // not a number
	}
}

// openService makes a holder's view of the service at target.
func openService(_ context.Context, target string) (*fencetest.Store, error) {
	call := func(ctx context.Context, method, name string, token lockport.Token, value int64) (int64, error) {
		r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s/%s?value=%d", target, url.PathEscape(name), value), nil)
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
		switch {
		case err != nil:
			return 0, err
		case answer.StatusCode == http.StatusPreconditionFailed:
			return 0, fmt.Errorf("%w: %s", fence.ErrStale, body)
		}
		return strconv.ParseInt(string(body), 10, 64)
	}
	put := func(ctx context.Context, name string, token lockport.Token, value int64) error {
		_, err := call(ctx, http.MethodPut, name, token, value)
		return err
	}
	return &fencetest.Store{
		Register: func(ctx context.Context, name string, token lockport.Token, _ *lockport.Lock) (fencetest.Write, error) {
			_, err := call(ctx, http.MethodGet, name, token, 0)
			return func(ctx context.Context, value int64) error { return put(ctx, name, token, value) }, err
		},
		Bare: func(ctx context.Context, name string, value int64) error { return put(ctx, name, 0, value) },
		Get: func(ctx context.Context, name string) (int64, error) {
			return call(ctx, http.MethodGet, name, 0, 0)
		},
		Close: func() {},
	}, nil
}

// Two goroutines of one process hand a lock over without a request to its server. The first one is refused all the same.
func TestMemoryRefusesTheHoldBeforeAHandOff(t *testing.T) {
	c, err := redisLocks(t.Context(), servers.SharedRedis(t).URL(), 30*time.Second)
	require.NoError(t, err)
	defer c.Close()
	before, after := fencetest.HandOff(t, c, t.Name()+strconv.FormatInt(time.Now().UnixNano(), 36))
	first, _ := before.Token()
	second, _ := after.Token()
	require.Equal(t, first/1024, second/1024, "one grant of the server")
	var m fence.Memory
	require.NoError(t, m.Register(t.Context(), "n", first))
	require.NoError(t, m.Register(t.Context(), "n", second))
	require.ErrorIs(t, m.Register(t.Context(), "n", first), fence.ErrStale)
}
