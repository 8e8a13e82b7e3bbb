package redisfence

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

// How a store writes.
const (
	byScript = "script"
	byTx     = "transaction"
	byLock   = "script that checks the lock too"
	bare     = "no fence"
)

func TestMain(m *testing.M) {
	kinds := make(map[string]fencetest.Kind)
	for _, how := range []string{byScript, byTx, byLock, bare} {
		kinds[how] = fencetest.Kind{
			Store: func(_ context.Context, rawURL string) (fencetest.Store, error) {
				o, err := goredis.ParseURL(rawURL)
				return &store{client: goredis.NewClient(o), how: how}, err
			},
			Locks: func(ctx context.Context, rawURL string, ttl time.Duration) (*lockport.Client, error) {
				return lockport.Open(ctx, rawURL, lockport.TTL(ttl), lockport.Logger(nil))
			},
		}
	}
	os.Exit(fencetest.Main(m, kinds))
}

// Holders that were stopped until their locks had expired go on, and write.
func TestLateHolders(t *testing.T) {
	s := servers.SharedRedis(t)
	for how, judge := range map[string]func(*testing.T, fencetest.Run){
		byScript: fencetest.Refuses, byTx: fencetest.Refuses, byLock: fencetest.Refuses, bare: fencetest.Loses,
	} {
		t.Run(how, func(t *testing.T) {
			judge(t, fencetest.Run{Kind: how, Store: s.URL(), Locks: s.URL(), LateTTL: 500 * time.Millisecond})
		})
	}
}

// store has a key for each number, and a fence beside it.
type store struct {
	client *goredis.Client
	how    string
}

func (s *store) Begin(ctx context.Context, l *lockport.Lock) (int64, func(ctx context.Context, value int64) error, error) {
	write, err := s.writer(ctx, l)
	if err != nil {
		return 0, nil, err
	}
	value, err := s.Value(ctx, l.Name())
	return value, write, err
}

func (s *store) writer(ctx context.Context, l *lockport.Lock) (func(ctx context.Context, value int64) error, error) {
	key := dataOf(l.Name())
	if s.how == bare {
		return func(ctx context.Context, value int64) error { return s.client.Set(ctx, key, value, 0).Err() }, nil
	}
	f, err := New(s.client, "fence:{"+l.Name()+"}")
	if err != nil {
		return nil, err
	}
	var g *Guard
	if s.how == byLock {
		g, err = f.RegisterLock(ctx, l)
	} else {
		token, _ := l.Token()
		g, err = f.Register(ctx, token)
	}
	return func(ctx context.Context, value int64) error {
		if s.how == byTx {
			_, err := g.Tx(ctx, func(_ *goredis.Tx, pipe goredis.Pipeliner) error { return pipe.Set(ctx, key, value, 0).Err() })
			return err
		}
		return g.Set(ctx, key, value, 0)
	}, err
}

func (s *store) Value(ctx context.Context, name string) (int64, error) {
	n, err := s.client.Get(ctx, dataOf(name)).Int64()
	if errors.Is(err, goredis.Nil) {
		return 0, nil
	}
	return n, err
}

func (s *store) Close() error { return s.client.Close() }

func dataOf(name string) string { return "number:{" + name + "}" }
