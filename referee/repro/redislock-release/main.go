// Command redislock-release shows a Release that deletes the lock's key and returns ErrLockNotHeld: go run ./repro/redislock-release localhost:6379
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	ctx, through := context.Background(), way.To(os.Args[1])
	client := redis.NewClient(&redis.Options{Addr: through.Addr()})
	for _, lose := range []string{"", "evalsha"} { // the first time loads the scripts
		lock, err := redislock.Obtain(ctx, client, "redislock-release", time.Minute, nil)
		way.Check(err)
		if lose != "" {
			through.Lose(lose)
		}
		err = lock.Release(ctx)
		keys := client.Exists(ctx, "redislock-release").Val()
		fmt.Printf("Release: %v, keys that are left: %d\n", err, keys)
	}
}
