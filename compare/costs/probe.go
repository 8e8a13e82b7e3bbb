package costs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

// probe acquires and releases fresh names one after the other, to see when that can be done.
type probe struct {
	stop context.CancelFunc

	mu        sync.Mutex
	successes []int64 // instants at which Acquire had returned a lock
	last      error   // why it did not return one since
	more      chan struct{}
}

// probeLimit is how long an attempt may take: whoever needs a lock gives up sometime, and tries again.
const probeLimit = time.Second

// probePause is between two attempts: without it, the client would keep from the servers the processor that they need to mend.
const probePause = time.Millisecond

func (w *worker) beginProbe(o order) (answer, error) {
	ctx, stop := context.WithCancel(w.ctx)
	p := &probe{stop: stop, more: make(chan struct{}, 1)}
	w.mu.Lock()
	w.probe = p
	w.mu.Unlock()
	w.background.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			p.try(ctx, w.client, fmt.Sprintf("%s-%d", o.Name, i), &w.background)
			time.Sleep(probePause)
		}
	})
	return answer{}, nil
}

func (p *probe) try(ctx context.Context, client *lockport.Client, name string, releases *sync.WaitGroup) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	lock, err := client.Acquire(ctx, name)
	at := faults.Now()
	p.mu.Lock()
	if err == nil {
		p.successes = append(p.successes, int64(at))
	}
	p.last = err
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	if err != nil {
		return
	}
	released := make(chan struct{})
	releases.Go(func() {
		defer close(released)
		_ = lock.Release(ctx) // nothing depends on it: the next name is another
	})
	select {
	case <-released:
	case <-ctx.Done(): // a server that is gone in this moment keeps a release waiting for longer
	}
}

// endProbe waits until o.Most attempts have succeeded after o.Begin, for at most o.For.
func (w *worker) endProbe(o order) (answer, error) {
	w.mu.Lock()
	p := w.probe
	w.mu.Unlock()
	defer p.stop()
	timeout := time.NewTimer(o.For)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		successes, last := p.successes, p.last
		p.mu.Unlock()
		if n := len(successes); n >= o.Most && successes[n-o.Most] > int64(o.Begin) {
			return answer{Instants: crew.Pack(successes)}, nil
		}
		select {
		case <-p.more:
		case <-timeout.C:
			return answer{}, fmt.Errorf("nobody could have a lock for %v after the servers had mended: %w", o.For, last)
		case <-w.ctx.Done():
			return answer{}, w.ctx.Err()
		}
	}
}
