package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	calmTime     = 300 * time.Millisecond // how long a client takes locks before a server is lost
	calmAttempts = 20                     // how many attempts must succeed when the servers have mended
	mendLimit    = 30 * time.Second       // within what time they must
	// attemptLimit is how long an attempt may take: whoever needs a lock gives up sometime, and tries again.
	attemptLimit = time.Second
	// attemptPause is between two attempts: without it the client would keep the processor from servers that need it to mend.
	attemptPause = time.Millisecond
)

// Gap has a client take and release fresh names, calls lose, which returns when the servers serve again, and returns the longest time between two locks that
// the client had since, in milliseconds.
func Gap(ctx context.Context, c Config, name string, lose func(ctx context.Context) error) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*mendLimit)
	defer cancel()
	w, err := Start(ctx, c, 1)
	if err != nil {
		return 0, err
	}
	defer w.Kill() // with a server gone, releases would take their time
	if _, err := w.all[0].Ask(ctx, order{Do: doProbe, Name: name}); err != nil {
		return 0, err
	}
	if err := sleep(ctx, calmTime); err != nil {
		return 0, err
	}
	struck := history.Now()
	if err := lose(ctx); err != nil {
		return 0, err
	}
	a, err := w.all[0].Ask(ctx, order{Do: doProbed, Begin: history.Now(), Most: calmAttempts, For: mendLimit})
	return millis(longestGap(worker.Unpack[history.Instant](a.Packed), struck)), err
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

// probe acquires and releases fresh names one after the other, in the worker.
type probe struct {
	stop context.CancelFunc

	mu        sync.Mutex
	successes []history.Instant // when Acquire had returned a lock
	last      error             // why it has not returned one since
	more      chan struct{}
}

func (l *laborer) beginProbe(o order) (answer, error) {
	ctx, stop := context.WithCancel(l.ctx)
	p := &probe{stop: stop, more: make(chan struct{}, 1)}
	l.mu.Lock()
	l.probe = p
	l.mu.Unlock()
	l.background.Go(func() {
		for i := 0; sleep(ctx, attemptPause) == nil; i++ {
			p.try(ctx, l, fmt.Sprint(o.Name, "-", i))
		}
	})
	return answer{}, nil
}

func (p *probe) try(ctx context.Context, l *laborer, name string) {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	h, err := l.locker.Acquire(ctx, name)
	at := history.Now()
	p.mu.Lock()
	if p.last = err; err == nil {
		p.successes = append(p.successes, at)
	}
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	if err != nil {
		return
	}
	released := make(chan struct{})
	l.background.Go(func() {
		defer close(released)
		_ = h.Release(ctx) // nothing depends on it: the next name is another
	})
	select {
	case <-released:
	case <-ctx.Done(): // a release to a server that is gone may take longer
	}
}

// endProbe waits until o.Most attempts have succeeded after o.Begin.
func (l *laborer) endProbe(o order) (answer, error) {
	l.mu.Lock()
	p := l.probe
	l.mu.Unlock()
	defer p.stop()
	timeout := time.NewTimer(o.For)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		successes, last := p.successes, p.last
		p.mu.Unlock()
		if n := len(successes); n >= o.Most && successes[n-o.Most] > o.Begin {
			return answer{Packed: worker.Pack(successes)}, nil
		}
		select {
		case <-p.more:
		case <-timeout.C:
			return answer{}, fmt.Errorf("nobody could have a lock for %v after the servers had mended: %w", o.For, last)
		case <-l.ctx.Done():
			return answer{}, l.ctx.Err()
		}
	}
}
