package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/redisfence"
)

func Example() {
	var ctx context.Context
	var server *goredis.Client
	var locks *lockport.Client // from redis.New, on the same server
	accounts, err := redisfence.New(server, "fence:{account-7}")
	if err != nil {
		log.Fatal(err)
	}

	err = lockport.Do(ctx, locks, "account-7", func(ctx context.Context, l *lockport.Lock) error {
		guard, err := accounts.RegisterLock(ctx, l) // before any read
		if err != nil {
			return err
		}
		balance, err := server.Get(ctx, "balance:{account-7}").Int()
		if err != nil {
			return err
		}
		return guard.Set(ctx, "balance:{account-7}", balance-10, 0)
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("a newer holder has the account: nothing was written")
	}
}

// withdraw is the application's own script. It does not mention the fence.
var withdraw = redisfence.NewScript(`
	if tonumber(redis.call('get', KEYS[1])) < tonumber(ARGV[1]) then
		return redis.error_reply('POOR the balance is too low')
	end
	return redis.call('decrby', KEYS[1], ARGV[1])
`)

func ExampleGuard_Run() {
	var ctx context.Context
	var accounts *redisfence.Fence // from redisfence.New
	var token lockport.Token       // of a lock on any backend
	guard, err := accounts.Register(ctx, token)
	if err != nil {
		log.Fatal(err)
	}
	left, err := guard.Run(ctx, withdraw, []string{"balance:{account-7}"}, 10).Int()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(left, "are left")
}
