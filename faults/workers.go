package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// Common are the faults of workers, and unless local those of their network, which every environment has. They are safe, unless changed has a cell of the same
// name, which may have the usual fault.
func Common(local bool, changed ...play.Cell) []play.Cell {
	common := slices.Clone(workerCells)
	if !local {
		common = append(common, networkCells...)
	}
	for i := range common {
		common[i].Harmless = true
	}
	for _, c := range changed {
		usual := find(common, c.Fault)
		if c.Inject == nil {
			c.Inject = usual.Inject
		}
		c.Harmless = true
		*usual = c
	}
	return common
}

var workerCells = []play.Cell{
	{Fault: "holder-killed", Outcome: report.Safe, Inject: killHolders,
		Why: "the lock of a killed process (kill -9) is granted again after its TTL, or when its session ends"},
	{Fault: "holder-stopped", Outcome: report.Safe, Inject: play.InOrder(stopHolder(0.8, 1.2), stopHolder(1.2, 2)),
		Why: "a process stopped (SIGSTOP) past its TTL finds its hold ended at its first check"},
}

var networkCells = []play.Cell{
	{Fault: "holder-cut", Outcome: report.Safe, Inject: onHolder(0.05, 1.5, links((*faultproxy.Proxy).Cut)),
		Why: "a holder that cannot reconnect ends its hold before the server does"},
	{Fault: "holder-silent", Outcome: report.Safe, Inject: onHolder(0.3, 1.7, silence),
		Why: "a holder with a silent (half-open) link ends its hold before the server does; late requests change nothing"},
	{Fault: "holder-slow", Outcome: report.Safe, Inject: lasting(slow, 1.5, 1.5),
		Why: "validity counts from when a request was sent, so slow replies shorten it"},
	{Fault: "replies-lost", Outcome: report.Safe, Inject: play.InOrder(loseReplies, onHolder(0.1, 1.2, links((*faultproxy.Proxy).BlackholeReplies))),
		Why: "a request without a reply may have taken effect: it is undone or repeated until the outcome is certain"},
	{Fault: "first-look", Outcome: report.Safe, Script: lookAfterPause,
		Why: "a process stopped past its deadline learns it at its first check, before any timer fires"},
	{Fault: "holder-stopped-and-probed", Outcome: report.Safe, Script: probeUntilExpiry,
		Why: "a client that keeps asking for a stopped process's lock gets it after the TTL, not before"},
	{Fault: "validity-from-sending", Outcome: report.Safe, Script: countValidity,
		Why: "with slow replies the deadline is the TTL after the request was sent, not after the reply"},
	{Fault: "acquire-reply-lost", Outcome: report.Safe, Script: loseAcquireReply,
		Why: "the process that gave up undoes its claim, so others do not wait for its TTL"},
	{Fault: "all-cut", Outcome: report.Unavailable, Inject: unavailable(cutAll, 0.25, 1, 1.5),
		Why: "all holds end in time, and nobody acquires"},
}

// injections is how often a brief fault is injected into a holder in a phase.
const injections = 3

func killHolders(s *play.Phase) {
	for range injections {
		w := s.Holder()
		s.Injected()
		w.Kill()
		s.Pause(0, 0.5)
	}
	s.Pause(1, 1) // the last of them keep what they held for so long
}

// workerFault is a fault of one worker, until end is called.
type workerFault func(s *play.Phase, w *play.Worker) (end func())

// onHolder injects a fault into a holder for between least and most TTLs.
func onHolder(least, most float64, f workerFault) play.Act {
	return func(s *play.Phase) {
		w := s.Holder()
		s.Injected()
		end := f(s, w)
		s.Pause(least, most)
		end()
	}
}

func stopHolder(least, most float64) play.Act {
	return onHolder(least, most, func(_ *play.Phase, w *play.Worker) func() {
		w.Stop()
		return func() { w.Resume() }
	})
}

// links does something to the links of a worker.
func links(do func(*faultproxy.Proxy)) workerFault {
	return func(_ *play.Phase, w *play.Worker) func() {
		w.Endpoint.Links.Each(do)
		return func() { w.Endpoint.Links.Each((*faultproxy.Proxy).Restore) }
	}
}

// silence makes the links of a worker silent. What was on its way then arrives late, or never.
func silence(s *play.Phase, w *play.Worker) func() {
	end := links((*faultproxy.Proxy).Freeze)(s, w)
	if s.Rand.IntN(2) == 0 {
		end = func() { w.Endpoint.Links.Each((*faultproxy.Proxy).DropHeld) }
	}
	return end
}

// onEverybody is a fault of all workers.
func onEverybody(f workerFault) fault {
	return func(s *play.Phase) func() {
		var ends []func()
		for _, w := range s.Workers() {
			ends = append(ends, f(s, w))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
}

var cutAll = onEverybody(links((*faultproxy.Proxy).Cut))

// slow makes the network slow, for each worker as much as for the next or not.
var slow = onEverybody(func(s *play.Phase, w *play.Worker) func() {
	delay := s.BetweenTTLs(0, 1.0/6)
	return links(func(l *faultproxy.Proxy) { l.Delay(delay) })(s, w)
})

// loseReplies has single replies of holders lost.
func loseReplies(s *play.Phase) {
	s.Injected()
	for range 4 * injections {
		links := s.Holder().Endpoint.Links
		links[s.Rand.IntN(len(links))].DropReply(nil)
		s.Pause(0, 0.05)
	}
}

// loseAcquireReply has a claim granted whose reply is lost, and its caller gone before it could ask again: somebody else gets the lock.
func loseAcquireReply(s *play.Phase) {
	hasty, patient := s.Two()
	s.Warm(hasty)
	s.Injected()
	restore := links((*faultproxy.Proxy).BlackholeReplies)(s, hasty)
	if _, err := hasty.Acquire(s.Name(), s.TTL/8); err == nil {
		play.Check(fmt.Errorf("%s got the lock without a reply", hasty.Name))
	}
	restore()
	s.Healed()
	limit := play.Patience * s.Cell.RecoveryIn(s.Environment.Environment)
	h, err := patient.AcquireAtLast(s.Name(), limit, limit) // a first try may find no server
	if err != nil {
		play.Check(fmt.Errorf("the lock stays with who has given up: %w", err))
	}
	h.Release()
}

// looks is how many locks a process holds that is stopped.
const looks = 10

// lookAfterPause stops a process that holds several locks until all have ended, and waits for what its first looks say.
func lookAfterPause(s *play.Phase) {
	w := s.Worker()
	s.Warm(w)
	var left []*play.Hold
	for i := range looks {
		left = append(left, play.Must(w.Acquire(fmt.Sprintf("%s-%d", s.Name(), i), 10*s.TTL)))
	}
	s.Injected()
	w.Stop()
	s.Pause(1, 1.25)
	w.Resume()
	checked := 0
	s.Eventually(func(context.Context) error {
		left = slices.DeleteFunc(left, func(h *play.Hold) bool {
			if h.Event(history.Checked).At != 0 {
				checked++
				return true
			}
			return h.Event(history.Told).At != 0 // before it was stopped: the machine was busy
		})
		if len(left) > 0 || checked == 0 {
			return fmt.Errorf("of %d holds %d were looked at, and %d are still to be", looks, checked, len(left))
		}
		return nil
	})
}

// probeUntilExpiry stops a holder and has another worker try to get its lock again and again: those who wait look only when it should be free, so
// that a lock that is granted a little too early is nobody's in a storm. The holder is continued at once when the other has the lock.
func probeUntilExpiry(s *play.Phase) {
	holder, rival := s.Two()
	s.Acquire(holder)
	s.Injected()
	holder.Stop()
	limit := play.Patience * s.Cell.RecoveryIn(s.Environment.Environment)
	trying := s.Tries(rival, 5*time.Millisecond)
	if !s.Until(limit, trying.Ended) {
		play.Check(fmt.Errorf("the lock of a stopped process was not free after %v: %w", limit, trying.Err))
	}
	holder.Resume()
	trying.Stop().Release()
}

// countValidity has replies come late, and looks whether the deadlines of a claim and of its first renewal are that much earlier.
func countValidity(s *play.Phase) {
	w, late := s.Worker(), s.TTL/32 // there and back in a quarter of what a renewal waits: the rest is for servers of a busy machine
	renewed := func(acquire func() *play.Hold) (e history.Event) {
		for range 10 { // a machine that stalls ends a hold before its renewal
			h := acquire()
			e = w.Await(0, func(e history.Event) bool {
				return e.Op == h.Op && (e.Kind == history.Extended || e.Kind == history.Told)
			})
			h.Release()
			if e.Kind == history.Extended {
				return e
			}
		}
		play.Check(fmt.Errorf("no hold was renewed: %s", e.Err))
		return e
	}
	renewed(func() *play.Hold { return s.Acquire(w) })
	s.Injected()
	links(func(l *faultproxy.Proxy) { l.Delay(late) })(s, w)
	most := s.TTL - s.Environment.Margin - late
	inTime := func(what string, left time.Duration) {
		if left > most {
			play.Check(fmt.Errorf("%s whose reply came %v late had a deadline in %v, which is more than %v", what, late, left, most))
		}
	}
	e := renewed(func() *play.Hold {
		h := play.Must(w.AcquireAtLast(s.Name(), 10*s.TTL, 10*s.TTL))
		inTime("a claim", h.Deadline.Sub(history.Now()))
		return h
	})
	inTime("a renewal", e.Deadline.Sub(e.At))
}

// underLoad is cells with one more, in which workers take and release locks as fast as they can while one of the faults is injected: thousands of tokens.
func underLoad(cells []play.Cell, fault string) []play.Cell {
	const grants = 4000
	c := *find(cells, fault)
	inject := c.Inject
	c.Inject = func(s *play.Phase) {
		s.Grants(grants / 2)
		inject(s)
		s.Grants(grants / 2)
	}
	c.Fault, c.Busy, c.Harmless, c.Outcome = fault+"-under-load", true, false, report.Safe
	c.Why = "tokens rise with every grant; none repeats"
	return append(slices.Clone(cells), c)
}
