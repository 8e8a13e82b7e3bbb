// Command rueidislock-outage shows that WithContext, called in an outage, keeps waiting for a lock that is free: go run ./repro/rueidislock-outage localhost:6379
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
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{through.Addr()}}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: 2 * time.Second,
	})
	way.Check(err)
	through.Freeze()
	time.AfterFunc(time.Second, through.Restore)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _, err = locker.WithContext(ctx, "outage")
	fmt.Println("9s after the outage WithContext returns:", err)
	_, _, err = locker.TryWithContext(context.Background(), "outage")
	fmt.Println("TryWithContext of the same locker:", err)
}
