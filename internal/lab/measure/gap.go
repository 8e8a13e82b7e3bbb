package measure

import (
	"context"
	"fmt"
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

// Gap has a client take and release fresh names while Lose takes a server away, and takes the longest time between two locks that the client had since.
func Gap(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	if turn > 0 && on.Mend != nil {
		if err := on.Mend(ctx); err != nil {
			return nil, fmt.Errorf("the servers do not mend: %w", err)
		}
	}
	w, err := kind.Start(ctx, on.config(s))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*mendLimit)
	type loss struct {
		struck, mended history.Instant
		err            error
	}
	lost, over := make(chan loss, 1), make(chan struct{})
	defer func() {
		w.Kill() // with a server gone, releases would take their time
		cancel()
		<-over
	}()
	go func() {
		defer close(over)
		l := loss{err: sleep(ctx, calmTime), struck: history.Now()}
		if l.err == nil {
			l.err = on.Lose(ctx)
		}
		l.mended = history.Now()
		lost <- l
	}()
	var l loss
	var successes []history.Instant
	for i := 0; l.mended == 0 || history.Now().Sub(l.mended) < mendLimit; i++ {
		select {
		case l = <-lost:
			if l.err != nil {
				return nil, l.err
			}
		case <-time.After(attemptPause):
		}
		// Nothing depends on the release, which may take long where the server is gone: the next name is another.
		var a answer
		name := fmt.Sprint(on.Locks, "-", turn, "-", i)
		if a, err = w.Ask(ctx, order{Do: "acquire", Name: name, For: attemptLimit}); err == nil {
			successes = append(successes, a.At)
			brief, cancel := context.WithTimeout(ctx, attemptLimit)
			_, _ = w.Ask(brief, order{Do: "release", Name: name})
			cancel()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if n := len(successes) - calmAttempts; l.mended > 0 && n >= 0 && successes[n] > l.mended {
			longest := millis(longestGap(successes, l.struck))
			on.keep("times", []float64{longest})
			return []Figure{Less("gap", "ms", longest)}, nil
		}
	}
	return nil, fmt.Errorf("nobody could have a lock for %v after the servers had mended: %w", mendLimit, err)
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
