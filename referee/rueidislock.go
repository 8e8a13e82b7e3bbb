package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// rueidisValidity is KeyValidity, which its user chooses.
const rueidisValidity = 2 * time.Second

var rueidislockSubject = Subject{
	Name: "rueidislock", Module: "github.com/redis/rueidis", Environment: "redis",
	Use: "TryWithContext, WithContext and the returned cancel, with KeyMajority 1 and NoLoopTracking, as in the README, KeyValidity 2s and TryNextAfter 1s; its context tells of a loss",
	Promises: map[string]string{
		"P1":  "README: \"If the KeyMajority is satisfied within the KeyValidity duration, the invocation is successful and a ctx is returned as the lock\"",
		"P3a": "README: \"The returned ctx will be canceled automatically and immediately once the KeyMajority is not held anymore, for example: Redis are down\"",
		"P3b": "README: \"… Acquired keys have been deleted by other programs or administrators\"",
		"P5":  "README: \"KeyValidity: 5s — lock validity period before it expires\"",
		"P7":  "README: \"The waiting Locker.WithContext will try acquiring the lock again automatically and immediately once it has been released\"",
		"P9":  "README: the name is the end of the keys",
	},
	Explained: map[string]string{
		"silence/frozen": rueidisLate, "silence/slow": rueidisLate, "crash/stopped-holder": rueidisLate,
		"liveness/server-gone": "lock.go: WithContext waits for an invalidation after a failed attempt, whatever the failure was; with client-side caching it has no time-out",
	},
	Open: openRueidislock, Remove: removeKey("rueidislock:0:"),
	IsOp: redisWords(map[conformance.Op][]string{
		conformance.OpAcquire: {"\r\nnx\r\n"}, conformance.OpRelease: {"del"},
	}),
}

const rueidisLate = "lock.go, monitoring: the request that extends the key is sent half a validity after the last one, with a deadline of a whole validity from then. The context " +
	"is cancelled when that request fails, which is later than the key's expiry"

func openRueidislock(_ context.Context, rawURL string) (driver.Backend, error) {
	servers, err := hosts(rawURL)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: servers}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: rueidisValidity, TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return waiter{&thin{
		caps: driver.Capabilities{Backend: "rueidislock", Ends: driver.EndsSession, Wake: driver.WakeQueue, FixedTTL: rueidisValidity},
		end:  func() error { locker.Close(); return nil },
		take: func(ctx context.Context, req driver.Request, wait bool) (*hold, error) {
			// The context of the attempt bounds the hold too: it is to end with the attempt alone.
			whole, end := context.WithCancel(context.WithoutCancel(ctx))
			stop := context.AfterFunc(ctx, end)
			ask := locker.TryWithContext
			if wait {
				ask = locker.WithContext
			}
			held, cancel, err := ask(whole, req.Name)
			stop()
			if errors.Is(err, rueidislock.ErrNotLocked) {
				end()
				return nil, driver.ErrHeld
			}
			if err != nil {
				end()
				return nil, err
			}
			told := tell(held.Done(), req.Lost)
			return &hold{release: func(context.Context) error {
				told()
				defer end()
				if held.Err() != nil {
					return driver.ErrLost
				}
				cancel()
				return nil
			}}, nil
		},
	}}, nil
}
