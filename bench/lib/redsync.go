package lib

import (
	"context"
	"errors"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
)

func init() {
	for family, mostHeld := range map[string]int{"redis": 0, "redlock": 1000} { // on five servers each loop asks all of them
		register(Library{
			Name: "redsync", Family: family, Kind: Theirs, Module: "github.com/go-redsync/redsync/v4",
			How:     "NewMutex with any number of tries, LockContext and UnlockContext",
			Renewal: LoopEach, Waits: true,
			MostWaiters: 1000, MostHeld: mostHeld, WhyMost: "it asks every server some seven times a second for each waiter, and three times in a TTL for each lock",
			Open: openRedsync,
		})
	}
}

type syncer struct {
	Config
	nodes []*goredis.Client
	rs    *redsync.Redsync
}

func openRedsync(_ context.Context, c Config) (Locker, error) {
	nodes, err := goRedis(c.URL)
	if err != nil {
		return nil, err
	}
	var pools []redis.Pool
	for _, n := range nodes {
		pools = append(pools, pool.NewPool(n))
	}
	return &syncer{c, nodes, redsync.New(pools...)}, nil
}

func (s *syncer) Acquire(ctx context.Context, name string) (Hold, error) {
	m := s.rs.NewMutex(name, redsync.WithExpiry(s.TTL), redsync.WithTries(math.MaxInt))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return s.held(m), nil
}

func (s *syncer) Try(ctx context.Context, name string) (Hold, error) {
	m := s.rs.NewMutex(name, redsync.WithExpiry(s.TTL))
	err := m.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return s.held(m), nil
}

func (s *syncer) held(m *redsync.Mutex) Hold {
	return loop(s.Config, synced{m}, func(ctx context.Context) error {
		_, err := m.ExtendContext(ctx)
		return err
	})
}

func (s *syncer) Close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

type synced struct{ *redsync.Mutex }

func (m synced) Release(ctx context.Context) error {
	ok, err := m.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("it was not held")
	}
	return err
}
