package hazards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// trial is one run of a scenario: a phase with commanded workers. A verb that fails ends the run, as in a test: see check. Only the goroutine of the script
// calls verbs.
type trial struct {
	*play.Phase
	ctx      context.Context
	class    report.Class // the worst that was found
	observed []string
	cuts     []*cut
}

// cut is when the network of a worker was cut off, slow or silent. To is 0 until it is well again.
type cut struct {
	worker, what string
	from, to     history.Instant
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

// run plays the script and returns the error with which it ended.
func (p *trial) run(ctx context.Context, phase *play.Phase, s script) (err error) {
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(broken)
			if !ok {
				panic(r)
			}
			err = b.error
		}
	}()
	p.Phase, p.ctx = phase, ctx
	s(p)
	return nil
}

// found adds a sentence about what was seen.
func (p *trial) found(class report.Class, format string, args ...any) {
	p.observed = append(p.observed, fmt.Sprintf(format, args...))
	p.class = report.Worse(p.class, class)
}

// The times of scripts.
const (
	// lasting bounds the wait for what must happen.
	lasting = 20 * time.Second
	// holding is how long a holder has the lock before something happens, and believed how long two believe at least, so that it can be seen.
	holding, believed = 300 * time.Millisecond, 500 * time.Millisecond
	// patientTTL is for plays in which servers are replaced or restarted before a holder renews. That takes far less time, even on a busy machine.
	patientTTL = 30 * time.Second
)

// limit is how long a worker waits for a lock that should end with its TTL, or with its process.
func (p *trial) limit() time.Duration {
	if p.Environment.Local {
		return 3 * p.Environment.TTL
	}
	return min(5*p.Environment.TTL, lasting)
}

func (p *trial) worker() *play.Worker { return must(p.Worker(p.ctx)) }

func (p *trial) sleep(d time.Duration)   { check(p.Sleep(p.ctx, d)) }
func (p *trial) release(h *play.Hold)    { check(h.Release(p.ctx)) }
func (p *trial) write(h *play.Hold)      { check(h.Update(p.ctx)) }
func (p *trial) valid(h *play.Hold) bool { return must(h.Valid(p.ctx)) }

// bothWrite has two workers write that should believe they hold the lock. Then it waits until the older one is told, or until the overlap can be seen.
func (p *trial) bothWrite(older, newer *play.Hold) {
	check(p.Both(p.ctx, older, newer))
	p.disbelieves(older, believed)
}

// disbelieves waits until a worker no longer believes in its hold, for most at most.
func (p *trial) disbelieves(h *play.Hold, most time.Duration) {
	p.until(most, func() bool { return !p.valid(h) })
}

// until waits until is says so, and reports whether it did within most.
func (p *trial) until(most time.Duration, is func() bool) bool {
	for end := time.Now().Add(most); !is(); p.sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// acquire has a worker wait for the lock on name. It asks again when the server is too busy or away. Another holder is an error.
func (p *trial) acquire(w *play.Worker, name string, within time.Duration) (*play.Hold, error) {
	return w.AcquireAtLast(p.ctx, name, within, within)
}

// has has a worker acquire the lock, and holds keeps it for a while.
func (p *trial) has(w *play.Worker) *play.Hold { return must(p.acquire(w, p.Name(), lasting)) }

func (p *trial) holds(w *play.Worker) *play.Hold {
	h := p.has(w)
	p.sleep(holding)
	return h
}

// warmUp has workers do what clients do only once, such as connecting.
func (p *trial) warmUp(all ...*play.Worker) {
	for _, w := range all {
		p.release(must(p.acquire(w, p.Name()+"-before", lasting)))
	}
}

// next has a worker wait for the lock after something has happened, says when it had the lock, and returns its hold. The hold is nil if the worker waited in vain:
// the lock is stuck then, unless somebody still believes in it.
func (p *trial) next(w *play.Worker, since history.Instant, what string) *play.Hold {
	h, err := p.acquire(w, p.Name(), p.limit())
	if err == nil {
		p.found(report.Safe, "%s had the lock %s after %s.", lane(w.Name), text(p.after(since, h)), what)
		return h
	}
	p.inVain(err, w, since, what)
	return nil
}

// inVain says that a worker did not get the lock, if err says so. Other errors end the run.
func (p *trial) inVain(err error, w *play.Worker, since history.Instant, what string) {
	if !taken(err) {
		check(err)
	}
	took, class, why := history.Now().Sub(since), report.Stuck, "nobody held it any more"
	h := must(newHistory(p.Events()))
	for _, s := range h.Spans {
		if s.Name == p.Name() && s.Until == h.End {
			class, why = report.Safe, lane(s.Worker)+" still held it"
		}
	}
	p.found(class, "%s after %s, %.1f times the TTL, %s had not got the lock: %s.", text(took), what, float64(took)/float64(p.Environment.TTL), lane(w.Name), why)
}

// task is what a worker does in the background. Over is closed when it has ended.
type task struct {
	over  chan struct{}
	stop  context.CancelFunc
	hold  *play.Hold // that it has acquired
	tries int
	err   error
}

func (p *trial) begin(do func(ctx context.Context, t *task)) *task {
	ctx, stop := context.WithCancel(p.ctx)
	t := &task{over: make(chan struct{}), stop: stop}
	go func() {
		defer close(t.over)
		do(ctx, t)
	}()
	return t
}

// asks has a worker wait for the lock, and returns when it has begun to.
func (p *trial) asks(w *play.Worker) *task {
	from := p.Length()
	t := p.begin(func(ctx context.Context, t *task) { t.hold, t.err = w.Acquire(ctx, p.Name(), lasting) })
	must(w.Await(p.ctx, from, func(e history.Event) bool { return e.Kind == history.Asked }))
	return t
}

// tries has a worker try to get the lock every so often, until it does or is stopped.
func (p *trial) tries(w *play.Worker, every time.Duration) *task {
	return p.begin(func(ctx context.Context, t *task) {
		for ctx.Err() == nil && t.hold == nil {
			t.tries++
			if t.hold, t.err = w.TryAcquire(p.ctx, p.Name(), time.Second); t.err != nil {
				_ = p.Sleep(ctx, every)
			}
		}
	})
}

// releases has a worker release its lock.
func (p *trial) releases(h *play.Hold) *task {
	return p.begin(func(_ context.Context, t *task) { t.err = h.Release(p.ctx) })
}

func (t *task) ended() bool { return closed(t.over) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stopped stops the task, and returns the hold that it has acquired, if any.
func (p *trial) stopped(t *task) *play.Hold {
	t.stop()
	<-t.over
	if t.err != nil && !errors.As(t.err, new(*play.AcquireError)) {
		check(t.err)
	}
	return t.hold
}

// got waits for the hold that the task acquires.
func (t *task) got() *play.Hold {
	<-t.over
	return must(t.hold, t.err)
}

// taken says that a worker was refused because another one has the lock, or waited for it in vain.
func taken(err error) bool {
	return refusedFor(err, history.ClassHeld) || refusedFor(err, history.ClassTimedOut)
}

func refusedFor(err error, class history.Class) bool {
	refusal := new(play.AcquireError)
	return errors.As(err, &refusal) && refusal.Class == class
}

// event is the last event of that kind of a hold's acquisition. Its time is 0 if there is none.
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

// toldSince waits until a worker knows of its loss, and says how long after an instant it did.
func (p *trial) toldSince(h *play.Hold, since history.Instant) (report.Class, string) {
	p.disbelieves(h, lasting)
	told := p.event(h, history.Told).At
	if told == 0 {
		return report.Misled, fmt.Sprintf("still believed in it %s later", text(lasting))
	}
	return report.Safe, fmt.Sprintf("was told of its loss after %s", text(max(0, told.Sub(since))))
}

// What is done to links. After drop they work again, and what was on its way is lost; after restore it arrives.
var (
	freeze  = (*faultproxy.Proxy).Freeze
	sever   = (*faultproxy.Proxy).Cut
	drop    = (*faultproxy.Proxy).DropHeld
	restore = (*faultproxy.Proxy).Restore
)

// apart harms links of a worker until back heals them. The timeline shows what it says.
func (p *trial) apart(w *play.Worker, what string, links faultproxy.Group, harm func(*faultproxy.Proxy)) (back func(heal func(*faultproxy.Proxy))) {
	begun := &cut{worker: w.Name, what: what, from: history.Now()}
	p.cuts = append(p.cuts, begun)
	links.Each(harm)
	return func(heal func(*faultproxy.Proxy)) {
		links.Each(heal)
		begun.to = history.Now()
	}
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
