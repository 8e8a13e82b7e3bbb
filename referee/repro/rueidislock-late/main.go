// Command rueidislock-late shows that a holder without replies from Redis learns of its loss after another client has the lock: go run ./repro/rueidislock-late localhost:6379
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	through := way.To(os.Args[1])
	first, _, err := locker(through.Addr()).WithContext(context.Background(), "late")
	way.Check(err)
	through.Freeze()
	_, _, err = locker(os.Args[1]).WithContext(context.Background(), "late")
	way.Check(err)
	began := time.Now()
	<-first.Done()
	fmt.Printf("second has had the lock for %v when first's context ends\n", time.Since(began).Round(time.Millisecond))
}

func locker(addr string) rueidislock.Locker {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: 2 * time.Second, TryNextAfter: time.Second,
	})
	way.Check(err)
	return l
}
