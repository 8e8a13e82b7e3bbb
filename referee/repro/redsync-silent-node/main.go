// Command redsync-silent-node shows that one silent server of five ends a lock which four extended in time:
// go run ./repro/redsync-silent-node HOST:PORT HOST:PORT HOST:PORT HOST:PORT HOST:PORT
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	through := way.To(os.Args[1])
	var pools []pool.Pool
	for _, addr := range append(os.Args[2:], through.Addr) {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: addr})))
	}
	mutex := redsync.New(pools...).NewMutex("redsync-silent-node")
	way.Check(mutex.Lock())
	through.Silence(true)
	began := time.Now()
	ok, err := mutex.Extend()
	fmt.Printf("Extend of a lock of 8s: %t, %v, after %v\n", ok, err, time.Since(began).Round(time.Second))
}
