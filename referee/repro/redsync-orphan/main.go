// Command redsync-orphan shows a TryLockContext whose context ends, and which leaves the lock taken: go run ./repro/redsync-orphan localhost:6379
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	through := way.To(os.Args[1])
	client := redis.NewClient(&redis.Options{Addr: through.Addr, ContextTimeoutEnabled: true})
	way.Check(client.Ping(context.Background()).Err())
	mutex := redsync.New(goredis.NewPool(client)).NewMutex("redsync-orphan", redsync.WithExpiry(time.Minute))
	through.NoReplies.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fmt.Println("TryLockContext:", mutex.TryLockContext(ctx))
	through.NoReplies.Store(false)
	time.Sleep(time.Second)
	direct := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	fmt.Println("a second later somebody else's TryLock:", redsync.New(goredis.NewPool(direct)).NewMutex("redsync-orphan").TryLock())
	fmt.Println("the key expires in", direct.TTL(context.Background(), "redsync-orphan").Val().Round(time.Minute))
}
