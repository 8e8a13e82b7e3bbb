package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
)

const (
	calmTime     = 300 * time.Millisecond // how long a client takes locks before a server is lost
	calmAttempts = 20                     // how many attempts must succeed when the servers serve again
	mendLimit    = 30 * time.Second       // within what time they must
	// attemptLimit is how long an attempt may take: whoever needs a lock gives up sometime, and tries again.
	attemptLimit = time.Second
	// attemptPause is between two attempts: without it the client would keep the processor from servers that need it to recover.
	attemptPause = time.Millisecond
)

// Gap has a client take and release fresh names, calls lose, which returns when the servers serve again, and returns the longest time between two locks that
// the client had since, in milliseconds.
func Gap(ctx context.Context, c Config, name string, lose func(ctx context.Context) error) (float64, error) {
	w, err := Start(ctx, c, 1)
	if err != nil {
		return 0, err
	}
	defer w.Kill() // with a server gone, releases would take their time
	var struck, mended history.Instant
	var losing sync.WaitGroup
	defer losing.Wait()
	ctx, cancel := context.WithTimeout(ctx, 2*mendLimit)
	defer cancel()
	lost := make(chan error, 1)
	losing.Go(func() {
		err := sleep(ctx, calmTime)
		if struck = history.Now(); err == nil {
			err = lose(ctx)
		}
		mended = history.Now()
		lost <- err
	})
	var successes []history.Instant
	var last error // why the client has no lock
	for i, over := 0, false; !over || history.Now().Sub(mended) < mendLimit; i++ {
		select {
		case err := <-lost:
			if err != nil {
				return 0, err
			}
			over = true
		case <-time.After(attemptPause):
		}
		var at history.Instant
		at, last = w.attempt(ctx, fmt.Sprint(name, "-", i))
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if last == nil {
			successes = append(successes, at)
		}
		if n := len(successes) - calmAttempts; over && n >= 0 && successes[n] > mended {
			return millis(longestGap(successes, struck)), nil
		}
	}
	return 0, fmt.Errorf("nobody could have a lock for %v after the servers had mended: %w", mendLimit, last)
}

// attempt has the first worker acquire and release name, and returns when it was granted.
func (w *Workers) attempt(ctx context.Context, name string) (history.Instant, error) {
	at, err := acquire(w.all[0], name, attemptLimit)(ctx)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, attemptLimit) // a release to a server that is gone may take longer
		defer cancel()
		_, _ = w.all[0].Ask(ctx, order{Do: "release", Name: name}) // nothing depends on it: the next name is another
	}
	return at, err
}

// longestGap is the longest time between two successes, the second of which came after the strike.
func longestGap(successes []history.Instant, struck history.Instant) (longest time.Duration) {
	for i := 1; i < len(successes); i++ {
		if successes[i] > struck {
			longest = max(longest, successes[i].Sub(successes[i-1]))
		}
	}
	return longest
}
