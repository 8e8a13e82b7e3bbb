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
	// Server, if not nil, tells the processor time and the memory of the servers.
	Server func() (cpu time.Duration, memory int64)
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
func MeasureIdle(ctx context.Context, c Config, o IdleOptions) (Idle, error) {
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
		defer end(holder)
		if _, err := acquire(holder.all[0], o.Name, grantLimit)(ctx); err != nil {
			return Idle{}, err
		}
	}
	c.URL = through
	w, err := Start(ctx, c, max(1, o.Processes))
	if err != nil {
		return Idle{}, err
	}
	defer end(w) // before the holder, so that nobody is handed the lock
	return w.idle(ctx, links, o)
}

// load is what was used until an instant.
type load struct {
	usage
	at           history.Instant
	requests     int64
	serverCPU    time.Duration
	serverMemory int64
}

func (w *Workers) idle(ctx context.Context, links faultproxy.Group, o IdleOptions) (i Idle, err error) {
	look := func(settled bool) (l load) {
		if err == nil {
			var a answer
			a, err = w.all[0].Ask(ctx, order{Do: "usage", Flag: settled})
			l = load{usage: a.After, at: history.Now(), requests: links.Requests()}
		}
		if o.Server != nil {
			l.serverCPU, l.serverMemory = o.Server()
		}
		return l
	}
	before := look(true)
	if err == nil {
		err = w.all.Each(func(n int, h *worker.Handle[order, answer]) error {
			do := order{Do: "wait", Name: o.Name, Goroutines: share(o.Waiters, len(w.all), n)}
			if o.Held > 0 {
				do = order{Do: "hold", Name: o.Name, Most: o.Held}
			}
			_, err := h.Ask(ctx, do)
			return err
		})
	}
	if err == nil {
		err = settle(ctx, links)
	}
	began := look(true)
	if err == nil {
		err = sleep(ctx, o.For)
	}
	ended := look(false)
	seconds := ended.at.Sub(began.at).Seconds()
	i.Requests = float64(ended.requests-began.requests) / seconds
	i.ClientCPU, i.ServerCPU = (ended.CPU-began.CPU).Seconds()/seconds, (ended.serverCPU-began.serverCPU).Seconds()/seconds
	i.Goroutines, i.Memory, i.Server = began.Goroutines-before.Goroutines, began.Memory-before.Memory, max(0, began.serverMemory-before.serverMemory)
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
