package measure

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/worker"

	"github.com/lockport/lockport/internal/lab/history"
)

// IdleOptions say what is there and should cost next to nothing: waiters, or held locks.
type IdleOptions struct {
	Name      string
	Waiters   int // goroutines that wait for one name that another process holds
	Held      int // instead of them: locks that are held
	Processes int // of the waiters; 0: one
	For       time.Duration
	// Server, if not nil, is asked for the processor time and the memory of the servers.
	Server func(ctx context.Context) (cpu time.Duration, memory int64, err error)
	// Kill ends waiters at once: some libraries do not notice that nobody wants to wait any more.
	Kill bool
}

// Idle is what waiters or held locks cost.
type Idle struct {
	Requests    float64 // in a second: what reached the servers in one piece, which is a command or several that were sent at once
	Connections int
	ClientCPU   float64 // processors
	ServerCPU   float64
	Goroutines  int   // of the first worker, more than before
	Memory      int64 // bytes, likewise
	Server      int64 // bytes, likewise of the servers
}

// ErrNotCounted is returned by [MeasureIdle] where requests cannot be counted.
var ErrNotCounted = errors.New("requests cannot be counted: there is no server, or no proxy can stand before it (TLS, and servers that name each other's addresses)")

// MeasureIdle measures waiters or held locks, behind proxies of their own that count requests.
func MeasureIdle(ctx context.Context, c Config, o IdleOptions) (_ Idle, err error) {
	through, links, err := faultproxy.ForURL(c.URL)
	if err != nil {
		return Idle{}, err
	}
	defer links.Close()
	if len(links) == 0 {
		return Idle{}, ErrNotCounted
	}
	end := (*Workers).Close
	if o.Kill {
		end = (*Workers).Kill
	}
	if o.Waiters > 0 {
		holder, err := Start(ctx, c, 1)
		if err != nil {
			return Idle{}, err
		}
		defer func() { end(holder) }()
		if _, err := holder.all[0].Ask(ctx, order{Do: doAcquire, Name: o.Name, For: grantLimit}); err != nil {
			return Idle{}, err
		}
	}
	c.URL = through
	w, err := Start(ctx, c, max(1, o.Processes))
	if err != nil {
		return Idle{}, err
	}
	defer func() { end(w) }() // before the holder, so that nobody is handed the lock
	if o.Server == nil {
		o.Server = func(context.Context) (time.Duration, int64, error) { return 0, 0, nil }
	}
	return w.idle(ctx, links, o)
}

func (w *Workers) idle(ctx context.Context, links faultproxy.Group, o IdleOptions) (i Idle, err error) {
	usage := func(settled bool) (u Usage) {
		if err == nil {
			var a answer
			a, err = w.all[0].Ask(ctx, order{Do: doUsage, Flag: settled})
			u = a.After
		}
		return u
	}
	server := func() (cpu time.Duration, memory int64) {
		if err == nil {
			cpu, memory, err = o.Server(ctx)
		}
		return cpu, memory
	}
	before := usage(true)
	_, empty := server()
	if err == nil {
		err = w.all.Each(func(n int, h *worker.Handle[order, answer]) error {
			do := order{Do: doWait, Name: o.Name, Goroutines: share(o.Waiters, len(w.all), n)}
			if o.Held > 0 {
				do = order{Do: doHold, Name: o.Name, Most: o.Held}
			}
			_, err := h.Ask(ctx, do)
			return err
		})
	}
	if err == nil {
		err = settle(ctx, links)
	}
	there := usage(true)
	cpu, memory := server()
	began, requests, at := usage(false), links.Requests(), history.Now()
	if err == nil {
		err = sleep(ctx, o.For)
	}
	seconds := history.Now().Sub(at).Seconds()
	i.Requests = float64(links.Requests()-requests) / seconds
	ended := usage(false)
	cpuEnd, _ := server()
	i.ClientCPU, i.ServerCPU = (ended.CPU-began.CPU).Seconds()/seconds, (cpuEnd-cpu).Seconds()/seconds
	i.Goroutines, i.Memory, i.Server = there.Goroutines-before.Goroutines, there.Memory-before.Memory, max(0, memory-empty)
	links.Each(func(p *faultproxy.Proxy) { i.Connections += p.Conns() })
	return i, err
}

const (
	settleStep  = 300 * time.Millisecond
	settleLimit = 20 * time.Second
)

// settle waits until everybody waits, or holds: until about as many requests are made in a moment as in the one before.
func settle(ctx context.Context, links faultproxy.Group) error {
	deadline := time.Now().Add(settleLimit)
	before := links.Requests()
	for last := math.Inf(1); time.Now().Before(deadline); {
		if err := sleep(ctx, settleStep); err != nil {
			return err
		}
		next := links.Requests()
		made := float64(next - before)
		if math.Abs(made-last) <= max(5, last/5) {
			return nil
		}
		last, before = made, next
	}
	return nil // it never settles: that is measured
}
