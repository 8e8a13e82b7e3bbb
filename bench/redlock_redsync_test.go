package bench

import (
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"
)

func redsyncRedlock(nodes []*client.Client) library {
	var pools []redis.Pool
	for _, n := range nodes {
		pools = append(pools, goredis.NewPool(n))
	}
	rs := redsync.New(pools...)
	return library{"redsync", func(name string) error {
		m := rs.NewMutex(name, redsync.WithExpiry(15*time.Second))
		if err := m.Lock(); err != nil {
			return err
		}
		ok, err := m.Unlock()
		if err == nil && !ok {
			err = errors.New("it was not held")
		}
		return err
	}}
}
