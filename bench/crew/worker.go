package crew

import (
	"context"
	"fmt"
	"sync"
	"time"

	crew "github.com/lockport/lockport/internal/lab/worker"

	"github.com/lockport/lockport/bench/lib"
)

// Clerk is a worker's process as its parent sees it, and Crew are several.
type (
	Clerk = crew.Handle[Order, Answer]
	Crew  = crew.Group[Order, Answer]
)

// Kind is the kind of workers: Kind.Start and Kind.StartAll start them.
var Kind = crew.Kind[Posting, Order, Answer]{Variable: "LOCKPORT_BENCH_WORKER"}

// Main is the first line of main, and of TestMain: in a process that was started as a worker it works and exits, in others it returns at once.
func Main() { Kind.Main(begin) }

// worker is the inside of a worker process.
type worker struct {
	ctx        context.Context // ends when the parent wants no more, or is gone
	locker     lib.Locker
	background sync.WaitGroup // what goes on after an order was answered

	profiles *profiles // nil: none

	mu   sync.Mutex
	kept map[string]lib.Hold
	held []lib.Hold // many, of which nobody asks for one
}

// openTime bounds the opening of a library.
const openTime = 10 * time.Second

func begin(ctx context.Context, p Posting) (crew.Worker[Order, Answer], error) {
	l, err := lib.Find(p.Family, p.Library)
	if err != nil {
		return nil, err
	}
	w := &worker{ctx: ctx, kept: make(map[string]lib.Hold)}
	if p.Profiles != "" {
		if w.profiles, err = profile(p.Profiles); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	w.locker, err = l.Open(ctx, p.Config)
	return w, err
}

// Close releases what is held.
func (w *worker) Close() {
	w.profiles.write()
	w.background.Wait()
	w.releaseAll()
	_ = w.locker.Close()
}

// Do carries out an order.
func (w *worker) Do(o Order) (Answer, error) {
	switch o.Do {
	case Cycle:
		return w.cycle(o)
	case Contend:
		return w.contend(o)
	case HandOff:
		return w.handOff(o)
	case Acquire:
		return w.acquire(o)
	case Release:
		return w.release(o)
	case Hold:
		return w.hold(o)
	case Wait:
		return w.wait(o)
	case Usage:
		return w.usage(o)
	}
	return Answer{}, fmt.Errorf("unknown order %q", o.Do)
}

// keep remembers a hold until it is released.
func (w *worker) keep(name string, h lib.Hold) {
	w.mu.Lock()
	w.kept[name] = h
	w.mu.Unlock()
}
