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

// The lock's key, for a transaction on the same server that must not commit after the lock is lost.
func ExampleEntry() {
	var ctx context.Context
	var server *goredis.Client
	var lock *lockport.Lock // of a client on that server
	var e redis.Entry
	lock.As(&e)
	err := server.Watch(ctx, func(tx *goredis.Tx) error {
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
