package redlock_test

import (
	"context"
	"fmt"
	"log"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
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
	fmt.Println("working while", lock.Valid(), "and without a fencing token")
}

// By URL, as configuration has it.
func Example_url() {
	ctx := context.Background()
	client, err := lockport.Open(ctx, "redlock://redis-1:6379,redis-2:6379,redis-3:6379?node_timeout=200ms")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = lockport.Do(ctx, client, "nightly-report", func(ctx context.Context, l *lockport.Lock) error {
		return ctx.Err() // ends when the lock is lost
	})
	if err != nil {
		log.Print(err)
	}
}
