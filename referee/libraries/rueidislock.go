package libraries

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// Rueidislock uses NoLoopTracking, its fastest setting. RueidislockTracking uses the default and is not judged.
var (
	Rueidislock         = rueidislockWith("rueidislock", true)
	RueidislockTracking = rueidislockWith("rueidislock, loop tracking", false)
)

func rueidislockWith(name string, noLoop bool) Subject {
	return Subject{
		Name: name, Library: name, Module: "github.com/redis/rueidis", Environment: "redis",
		Use: "TryWithContext, WithContext and the returned cancel, with KeyMajority 1 and NoLoopTracking, as in the README, KeyValidity 2s and TryNextAfter 1s; its context tells of a loss",
		Promises: map[string]string{
			"P1":  "README: \"If the KeyMajority is satisfied within the KeyValidity duration, the invocation is successful and a ctx is returned as the lock\"",
			"P3a": "README: \"The returned ctx will be canceled automatically and immediately once the KeyMajority is not held anymore, for example: Redis are down\"",
			"P3b": "README: \"… Acquired keys have been deleted by other programs or administrators\"",
			"P5":  "README: \"KeyValidity: 5s — lock validity period before it expires\"",
			"P7":  "README: \"The waiting Locker.WithContext will try acquiring the lock again automatically and immediately once it has been released\"",
			"P9":  "README: the name is the end of the keys",
		},
		Not: map[string]string{"removal/forgotten": "cancel returns no error that could tell of a loss"},
		Explained: map[string]string{
			"silence/frozen": rueidisLate, "silence/slow": rueidisLate, "crash/stopped-holder": rueidisLate,
			"liveness/server-gone": "rueidislock-outage, below",
		},
		Caps: driver.Capabilities{Ends: driver.EndsSession, Wake: driver.WakeQueue, FixedTTL: sessionTTL},
		Open: func(_ context.Context, rawURL string, ttl time.Duration) (library.Client, error) {
			return openRueidislock(rawURL, ttl, noLoop)
		},
		Remove: func(ctx context.Context, rawURL, name string) error {
			client := GoRedis(rawURL)
			return errors.Join(client[0].Del(ctx, "rueidislock:0:"+name).Err(), client.Close())
		},
		IsOp: redisWords(map[conformance.Op]string{conformance.OpAcquire: `\r\nnx\r\n`, conformance.OpRelease: "del"}),
	}
}

const rueidisLate = "rueidislock-late, below"

func openRueidislock(rawURL string, validity time.Duration, noLoop bool) (library.Client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: hosts(rawURL)}, KeyMajority: 1, NoLoopTracking: noLoop, KeyValidity: validity,
		// With the default of 20 ms, one slower reply leaves WithContext waiting for a free name. It undoes the late request itself and, with
		// NoLoopTracking, gets no notification of that. On a busy machine, chance would decide the result.
		TryNextAfter: time.Second,
	})
	if err != nil {
		return library.Client{}, err
	}
	return library.Client{Close: func() error { locker.Close(); return nil }, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		// The attempt's context also bounds the hold, so it must outlive a successful attempt.
		whole, end := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, end)
		held, cancel, err := Either(c.Wait, locker.WithContext, locker.TryWithContext)(whole, c.Name)
		stop()
		if err != nil {
			end()
			return nil, HeldIf(errors.Is(err, rueidislock.ErrNotLocked), err)
		}
		return &library.Hold{Lost: held.Done(), Release: func(context.Context) error {
			defer end()
			if held.Err() != nil {
				return driver.ErrLost
			}
			cancel() // waits until the keys are gone
			return nil
		}}, nil
	}}, nil
}
