package redis_test

import (
	"context"
	"fmt"
	"log"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/redis"
)

func Example() {
	ctx := context.Background()
	server := goredis.NewClient(&goredis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer server.Close()
	client, err := redis.New(server, redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := client.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	token, _ := lock.Token()
	fmt.Println("working under fencing token", token)
}

// From a URL in the configuration.
func Example_url() {
	ctx := context.Background()
	client, err := lockport.Open(ctx, "redis+sentinel://sentinel-1:26379?addr=sentinel-2:26379&master_name=mymaster&replicas=1")
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

// The lock's key, for a transaction on the same server that must not commit after the lock is lost.
func ExampleEntry() {
	ctx := context.Background()
	server := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
	defer server.Close()
	client, err := redis.New(server, redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, err := client.Acquire(ctx, "account-7")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	var e redis.Entry
	lock.As(&e)
	err = server.Watch(ctx, func(tx *goredis.Tx) error {
		if value, err := tx.Get(ctx, e.Key).Result(); err != nil || value != e.Value {
			return lockport.ErrLost
		}
		_, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			p.IncrBy(ctx, "balance-7", -10)
			return nil
		})
		return err
	}, e.Key)
	if err != nil {
		log.Print(err)
	}
}
