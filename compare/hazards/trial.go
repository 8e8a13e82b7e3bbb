package hazards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// trial is one run of a scenario: a phase with commanded workers. Its verbs end the run where they fail, as those of tests do: see check. They are called by
// the goroutine of the script, except those that return an error.
type trial struct {
	*play.Phase
	ctx context.Context

	mu       sync.Mutex
	class    report.Class
	observed []string
	cuts     []cut
}

// cut is when the network of a worker was cut off, or silent. To is 0 as long as it is.
type cut struct {
	worker   string
	what     string
	from, to history.Instant
}

// broken is what a script panics with when a verb fails.
type broken struct{ error }

// check ends the run with err, unless it is nil.
func check(err error) {
	if err != nil {
		panic(broken{err})
	}
}

// must is v, if there is no error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// run plays the script, and returns the error with which it ended.
func (p *trial) run(ctx context.Context, phase *play.Phase, s script) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r.error
		default:
			panic(r)
		}
	}()
	p.Phase, p.ctx = phase, ctx
	s(p)
	return nil
}

// found adds what was seen, in a sentence with its figures. The class of the run is the worst of all that was found.
func (p *trial) found(class report.Class, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observed = append(p.observed, fmt.Sprintf(format, args...))
	p.class = report.Worse(p.class, class)
}

// text is what was found, for people.
func (p *trial) text() string { return strings.Join(p.observed, " ") }

// The times of scripts.
const (
	// lasting is how long a script waits for what must happen at last, and patience so many TTLs for a lock that should be free after one.
	lasting, patience = 20 * time.Second, 5
	// holding is how long a holder has the lock before something happens, and believed how long two believe at least, so that it can be seen.
	holding, believed = 300 * time.Millisecond, 500 * time.Millisecond
	// patientTTL is for plays in which servers are replaced or started again before a holder looks: far longer than that takes on a busy machine.
	patientTTL = 30 * time.Second
	// rounds is how often a play repeats what must hit an interval between two renewals.
	rounds = 3
)

// limit is how long a worker waits for a lock that should end with its TTL, or with its process.
func (p *trial) limit() time.Duration { return patience * p.Environment.TTL }

// patient has the workers that are started from now on use another TTL, if it is not 0. What happens before a holder's next renewal, or its deadline, is then
// seen also on a busy machine. Files have no TTL, and ZooKeeper's servers allow no longer one.
func (p *trial) patient(ttl time.Duration) {
	if ttl == 0 || p.Environment.Local || p.Environment.Backend == "zookeeper" {
		return
	}
	about, running := *p.Environment.Environment, *p.Environment
	inURL, endpoint := "ttl="+about.TTL.String(), running.Endpoint // where the TTL belongs to the session
	about.Margin += (ttl - about.TTL) / 20
	about.TTL = ttl
	running.Environment = &about
	running.Endpoint = func() (*environment.Endpoint, error) {
		e, err := endpoint()
		if err == nil {
			e.URL = strings.Replace(e.URL, inURL, "ttl="+ttl.String(), 1)
		}
		return e, err
	}
	p.Environment = &running
}

// workers starts three workers. The lanes of a timeline are in the order in which they start.
func (p *trial) workers() (a, b, c *play.Worker) {
	a, b = p.worker(), p.worker()
	return a, b, p.worker()
}

func (p *trial) worker() *play.Worker { return must(p.Worker(p.ctx)) }

func (p *trial) sleep(d time.Duration)        { check(p.Sleep(p.ctx, d)) }
func (p *trial) release(h *play.Hold)         { check(h.Release(p.ctx)) }
func (p *trial) write(h *play.Hold)           { check(h.Update(p.ctx)) }
func (p *trial) valid(h *play.Hold) bool      { return must(h.Valid(p.ctx)) }
func (p *trial) both(older, newer *play.Hold) { check(p.Both(p.ctx, older, newer)) }

// bothWrite has two who should believe they hold the lock write, and lets them believe for a while.
func (p *trial) bothWrite(older, newer *play.Hold) {
	p.both(older, newer)
	p.sleep(believed)
}

// acquire has a worker wait for the lock on name. A server that is too busy to answer, or away, is asked again; another holder is an error.
func (p *trial) acquire(w *play.Worker, name string, within time.Duration) (*play.Hold, error) {
	for begun := time.Now(); ; {
		h, err := w.Acquire(p.ctx, name, max(within-time.Since(begun), time.Millisecond))
		if err == nil || taken(err) || time.Since(begun) > within || !errors.As(err, new(*play.AcquireError)) {
			return h, err
		}
		if err := p.Sleep(p.ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// has has a worker acquire the lock, and holds does so for a while.
func (p *trial) has(w *play.Worker) *play.Hold { return must(p.acquire(w, p.Name(), lasting)) }

func (p *trial) holds(w *play.Worker) *play.Hold {
	h := p.has(w)
	p.sleep(holding)
	return h
}

// warmUp has workers do what clients do but once, such as connecting.
func (p *trial) warmUp(all ...*play.Worker) {
	for _, w := range all {
		p.release(must(p.acquire(w, p.Name()+"-before", lasting)))
	}
}

// pending is an acquisition that is under way.
type pending struct {
	over chan struct{}
	hold *play.Hold
	err  error
}

// ask has a worker wait for the lock, and returns when it has begun to.
func (p *trial) ask(w *play.Worker, within time.Duration) *pending {
	a, from := &pending{over: make(chan struct{})}, p.Length()
	go func() {
		defer close(a.over)
		a.hold, a.err = p.acquire(w, p.Name(), within)
	}()
	must(p.Await(p.ctx, from, func(e history.Event) bool { return e.Worker == w.Name && e.Kind == history.Asked && e.Name == p.Name() }))
	return a
}

// wait returns what became of it.
func (a *pending) wait() *play.Hold {
	<-a.over
	return must(a.hold, a.err)
}

// tries has a worker try to get the lock every so often until it does, or until is closed, or limit has passed, and returns how often it did.
func (p *trial) tries(w *play.Worker, every, limit time.Duration, until <-chan struct{}) (h *play.Hold, n int, err error) {
	for begun := time.Now(); ; {
		n++
		if h, err = w.TryAcquire(p.ctx, p.Name(), p.Environment.TTL); err == nil || time.Since(begun) > limit {
			return h, n, err
		}
		if !taken(err) && !refusedFor(err, history.ClassUnavailable) {
			return nil, n, err
		}
		select {
		case <-until:
			return nil, n, err
		case <-time.After(every):
		case <-p.ctx.Done():
			return nil, n, context.Cause(p.ctx)
		}
	}
}

// taken says that a worker was refused because another one has the lock, or waited for it in vain.
func taken(err error) bool {
	return refusedFor(err, history.ClassHeld) || refusedFor(err, history.ClassTimedOut)
}

func refusedFor(err error, class history.Class) bool {
	refusal := new(play.AcquireError)
	return errors.As(err, &refusal) && refusal.Class == class
}

// stuck finds that a lock which should be free is still taken, if err says so. Other errors end the run.
func (p *trial) stuck(err error, since history.Instant, what string) {
	if !taken(err) {
		check(err)
	}
	took := history.Now().Sub(since)
	p.found(report.Stuck, "%s after %s the lock was still taken, %.1f times its TTL.", text(took), what, float64(took)/float64(p.Environment.TTL))
}

// event is the last event of that kind of a hold's acquisition; its time is 0 if there is none.
func (p *trial) event(h *play.Hold, kind history.Kind) (found history.Event) {
	for _, e := range p.Events() {
		if e.Worker == h.Worker.Name && e.Op == h.Op && e.Kind == kind {
			found = e
		}
	}
	return found
}

// after is how long after an instant a hold was acquired.
func (p *trial) after(since history.Instant, h *play.Hold) time.Duration {
	return p.event(h, history.Got).At.Sub(since)
}

// told waits until a worker no longer believes in its hold, for so long at most.
func (p *trial) told(h *play.Hold, most time.Duration) {
	for begun := time.Now(); p.valid(h) && time.Since(begun) <= most; {
		p.sleep(time.Millisecond)
	}
}

// linger lets two believe until the older one is told, or for long enough to be seen.
func (p *trial) linger(older *play.Hold) { p.told(older, 1500*time.Millisecond) }

// toldSince waits until a worker knows of its loss, and says for people how long after an instant it did.
func (p *trial) toldSince(h *play.Hold, since history.Instant) (report.Class, string) {
	p.told(h, lasting)
	told := p.event(h, history.Told).At
	if told == 0 {
		return report.Misled, fmt.Sprintf("still believed in it %s later", text(lasting))
	}
	return report.Safe, fmt.Sprintf("was told of its loss after %s", text(max(0, told.Sub(since))))
}

// died has A acquire the lock and be killed, and returns when that was.
func (p *trial) died(a *play.Worker) history.Instant {
	p.holds(a)
	p.Injected()
	p.Note("A is killed")
	killed := history.Now()
	check(a.Kill())
	return killed
}

// cutOff notes for the timeline that the network of a worker is not as it should be, until mended is called; what says how: "silent", "cut".
func (p *trial) cutOff(w *play.Worker, what string) (mended func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := len(p.cuts)
	p.cuts = append(p.cuts, cut{worker: w.Name, what: what, from: history.Now()})
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cuts[i].to = history.Now()
	})
}

// text is a duration for people, in milliseconds, or in seconds with two digits after the point.
func text(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "less than 1 ms"
	case d.Round(time.Millisecond) < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
