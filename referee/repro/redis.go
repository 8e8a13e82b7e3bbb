package repro

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// redislockRelease loses the reply to a Release. It deletes the lock's key and returns ErrLockNotHeld.
func redislockRelease(addr string) {
	ctx, through := context.Background(), proxyTo(addr)
	client := redis.NewClient(&redis.Options{Addr: through.Addr()})
	for _, lost := range []bool{false, true} { // the first time loads the scripts
		lock, err := redislock.Obtain(ctx, client, "redislock-release", time.Minute, nil)
		check(err)
		if lost {
			lose("evalsha", through)
		}
		err = lock.Release(ctx)
		keys := client.Exists(ctx, "redislock-release").Val()
		fmt.Printf("Release: %v, keys that are left: %d\n", err, keys)
	}
}

// rueidisLocker opens a locker. tryNext 0 is the default, 20 ms.
func rueidisLocker(addr string, tryNext time.Duration) rueidislock.Locker {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: 2 * time.Second, TryNextAfter: tryNext,
	})
	check(err)
	return l
}

// rueidislockLate has a holder without replies from Redis. It learns of its loss after another client has the lock.
func rueidislockLate(addr string) {
	through := proxyTo(addr)
	first, _, err := rueidisLocker(through.Addr(), time.Second).WithContext(context.Background(), "late")
	check(err)
	through.Freeze()
	_, _, err = rueidisLocker(addr, time.Second).WithContext(context.Background(), "late")
	check(err)
	began := time.Now()
	<-first.Done()
	fmt.Printf("second has had the lock for %v when first's context ends\n", time.Since(began).Round(time.Millisecond))
}

// rueidislockOutage calls WithContext in an outage. It keeps waiting for a lock that is free.
func rueidislockOutage(addr string) {
	through := proxyTo(addr)
	locker := rueidisLocker(through.Addr(), 0)
	through.Freeze()
	time.AfterFunc(time.Second, through.Restore)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _, err := locker.WithContext(ctx, "outage")
	fmt.Println("9s after the outage WithContext returns:", err)
	_, _, err = locker.TryWithContext(context.Background(), "outage")
	fmt.Println("TryWithContext of the same locker:", err)
}
