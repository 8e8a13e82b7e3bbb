// Command redsync-taken shows a TryLock that fails with ErrTaken although nobody else asked for the lock: go run ./repro/redsync-taken localhost:6379
package main

import (
	"fmt"
	"os"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	through := way.To(os.Args[1])
	client := redis.NewClient(&redis.Options{Addr: through.Addr})
	mutex := redsync.New(goredis.NewPool(client)).NewMutex("redsync-taken")
	through.Lose("nx\r\n")
	fmt.Println("the only TryLock:", mutex.TryLock())
	fmt.Println("the next TryLock:", mutex.TryLock())
}
