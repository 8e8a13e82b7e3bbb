package etcdfence

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

// How a store writes.
const (
	byToken = "transaction"
	byLock  = "transaction that compares the lock too"
	bare    = "no fence"
)

func TestMain(m *testing.M) {
	kinds := make(map[string]fencetest.Kind)
	for _, how := range []string{byToken, byLock, bare} {
		kinds[how] = fencetest.Kind{
			Store: func(_ context.Context, addr string) (fencetest.Store, error) {
				c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
				return &store{client: c, how: how}, err
			},
			Locks: func(ctx context.Context, addr string, ttl time.Duration) (*lockport.Client, error) {
				return lockport.Open(ctx, "etcd://"+addr+"?ttl="+ttl.String(), lockport.Logger(nil))
			},
		}
	}
	os.Exit(fencetest.Main(m, kinds))
}

// Holders that were stopped until their locks had expired go on, and write.
func TestLateHolders(t *testing.T) {
	s := servers.SharedEtcd(t)
	for how, judge := range map[string]func(*testing.T, fencetest.Run){
		byToken: fencetest.Refuses, byLock: fencetest.Refuses, bare: fencetest.Loses,
	} {
		t.Run(how, func(t *testing.T) {
			judge(t, fencetest.Run{Kind: how, Store: s.Addr(), Locks: s.Addr(), LateTTL: time.Second})
		})
	}
}

// store has a key for each number, and a fence beside it.
type store struct {
	client *clientv3.Client
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
	put := func(value int64) clientv3.Op { return clientv3.OpPut(dataOf(l.Name()), strconv.FormatInt(value, 10)) }
	if s.how == bare {
		return func(ctx context.Context, value int64) error { _, err := s.client.Do(ctx, put(value)); return err }, nil
	}
	f, err := New(s.client, "fence/"+l.Name())
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
	return func(ctx context.Context, value int64) error { _, err := g.Commit(ctx, put(value)); return err }, err
}

func (s *store) Value(ctx context.Context, name string) (int64, error) {
	r, err := s.client.Get(ctx, dataOf(name))
	if err != nil || len(r.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(r.Kvs[0].Value), 10, 64)
}

func (s *store) Close() error { return s.client.Close() }

func dataOf(name string) string { return "number/" + name }
