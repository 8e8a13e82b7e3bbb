package redlock_test

import (
	"context"
	"log"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/backend/redlock"
)

func Example() {
	ctx := context.Background()
	var nodes []*goredis.Client
	for _, addr := range []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"} {
		node := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
		defer node.Close()
		nodes = append(nodes, node)
	}
	client, err := redlock.New(nodes, redlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := client.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	// Work, and stop when lock.Lost() is closed. There is no fencing token.
}
