package zkfence

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

// How a store writes.
const (
	byToken = "multi"
	byLock  = "multi that checks the lock too"
	bare    = "no fence"
)

func TestMain(m *testing.M) {
	kinds := make(map[string]fencetest.Kind)
	for _, how := range []string{byToken, byLock, bare} {
		kinds[how] = fencetest.Kind{
			Store: func(_ context.Context, addr string) (fencetest.Store, error) {
				// Its session is to outlive the time for which the process is stopped: a late write must arrive.
				c, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(servers.DialZooKeeper))
				return &store{conn: c, how: how}, err
			},
			Locks: func(ctx context.Context, addr string, ttl time.Duration) (*lockport.Client, error) {
				return lockport.Open(ctx, "zookeeper://"+addr+"?ttl="+ttl.String(), lockport.Logger(nil))
			},
		}
	}
	os.Exit(fencetest.Main(m, kinds))
}

// Holders that were stopped until their locks had expired go on, and write.
func TestLateHolders(t *testing.T) {
	s := servers.SharedZooKeeper(t)
	for how, judge := range map[string]func(*testing.T, fencetest.Run){
		byToken: fencetest.Refuses, byLock: fencetest.Refuses, bare: fencetest.Loses,
	} {
		t.Run(how, func(t *testing.T) {
			judge(t, fencetest.Run{Kind: how, Store: s.Addr(), Locks: s.Addr(), LateTTL: 500 * time.Millisecond})
		})
	}
}

// store has a node for each number, and a fence beside it.
type store struct {
	conn *zk.Conn
	how  string
}

func (s *store) Begin(ctx context.Context, l *lockport.Lock) (int64, func(ctx context.Context, value int64) error, error) {
	_, err := s.conn.Create(dataOf(l.Name()), []byte("0"), 0, zk.WorldACL(zk.PermAll))
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return 0, nil, err
	}
	write, err := s.writer(ctx, l)
	if err != nil {
		return 0, nil, err
	}
	value, err := s.Value(ctx, l.Name())
	return value, write, err
}

func (s *store) writer(ctx context.Context, l *lockport.Lock) (func(ctx context.Context, value int64) error, error) {
	path := dataOf(l.Name())
	if s.how == bare {
		return func(_ context.Context, value int64) error { _, err := s.conn.Set(path, text(value), -1); return err }, nil
	}
	f, err := New(s.conn, "/fence of "+l.Name(), Options{})
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
	return func(ctx context.Context, value int64) error { _, err := g.Set(ctx, path, text(value), -1); return err }, err
}

func (s *store) Value(ctx context.Context, name string) (int64, error) {
	if _, err := s.conn.Sync(dataOf(name)); err != nil {
		return 0, err
	}
	data, _, err := s.conn.Get(dataOf(name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(data), 10, 64)
}

func (s *store) Close() error { s.conn.Close(); return nil }

func dataOf(name string) string { return "/number " + name }

func text(value int64) []byte { return strconv.AppendInt(nil, value, 10) }
