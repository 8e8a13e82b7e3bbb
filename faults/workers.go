package faults

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// Common are the faults of workers and, unless they connect directly, of their network. They are safe, unless changed has a cell of the same name. Such
// a cell needs no Script: it takes the usual one.
func Common(direct bool, changed ...play.Cell) []play.Cell {
	common := slices.Clone(workerCells)
	if !direct {
		common = append(common, networkCells...)
	}
	for _, c := range changed {
		i := slices.IndexFunc(common, func(usual play.Cell) bool { return usual.Fault == c.Fault })
		if c.Script == nil {
			c.Script = common[i].Script
		}
		common[i] = c
	}
	for i := range common {
		common[i].Harmless = true
	}
	return common
}

var workerCells = []play.Cell{
	{Fault: "holder-killed", Outcome: report.Safe, Script: play.Storm(killHolders),
		Why: "the lock of a killed process (kill -9) is granted again after its TTL, or when its session ends"},
	{Fault: "holder-stopped", Outcome: report.Safe, Script: play.Storm(play.InOrder(lasting(holder(stopped), 0.8, 1.2), lasting(holder(stopped), 1.2, 2))),
		Why: "a process stopped (SIGSTOP) past its TTL finds its hold ended at its first check"},
}

var networkCells = []play.Cell{
	{Fault: "holder-cut", Outcome: report.Safe, Script: play.Storm(lasting(holder(links((*faultproxy.Proxy).Cut)), 0.05, 1.5)),
		Why: "a holder that cannot reconnect ends its hold before the server does"},
	{Fault: "holder-silent", Outcome: report.Safe, Script: play.Storm(lasting(holder(silence), 0.3, 1.7)),
		Why: "a holder with a silent (half-open) link ends its hold before the server does; late requests change nothing"},
	{Fault: "holder-slow", Outcome: report.Safe, Script: play.Storm(lasting(slow, 1.5, 1.5)),
		Why: "validity counts from when a request was sent, so slow replies shorten it"},
	{Fault: "replies-lost", Outcome: report.Safe, Script: play.Storm(play.InOrder(loseReplies, lasting(holder(links((*faultproxy.Proxy).BlackholeReplies)), 0.1, 1.2))),
		Why: "a request without a reply may have taken effect: it is undone or repeated until the outcome is certain"},
	{Fault: "acquire-reply-lost", Outcome: report.Safe, Script: loseAcquireReply,
		Why: "the process that gave up undoes its claim, so others do not wait for its TTL"},
	{Fault: "all-cut", Outcome: report.Unavailable, Script: play.Storm(unavailable(cutAll, 0.25, 1, 1.5)),
		Why: "all holds end in time, and nobody acquires"},
}

// injections is how often one phase injects a brief fault into a holder.
const injections = 3

func killHolders(s *play.Phase) {
	for range injections {
		w := s.Holder()
		s.Injected()
		w.Kill()
		s.Pause(0, 0.5)
	}
	s.Pause(1, 1) // the last of them keep their locks for a TTL
}

// workerFault is a fault of one worker, which lasts until end is called.
type workerFault func(s *play.Phase, w *play.Worker) (end func())

// holder applies a fault to a holder, and everybody to all workers.
func holder(f workerFault) fault {
	return func(s *play.Phase) func() { return f(s, s.Holder()) }
}

func everybody(f workerFault) fault {
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

func stopped(_ *play.Phase, w *play.Worker) func() {
	w.Stop()
	return w.Resume
}

// links calls do on the links of a worker.
func links(do func(*faultproxy.Proxy)) workerFault {
	return func(_ *play.Phase, w *play.Worker) func() {
		w.Endpoint.Links.Each(do)
		return func() { w.Endpoint.Links.Each((*faultproxy.Proxy).Restore) }
	}
}

// silence freezes the links of a worker. Afterwards, delayed data arrives late or never.
func silence(s *play.Phase, w *play.Worker) func() {
	end := links((*faultproxy.Proxy).Freeze)(s, w)
	if s.Rand.IntN(2) == 0 {
		end = func() { w.Endpoint.Links.Each((*faultproxy.Proxy).DropHeld) }
	}
	return end
}

// cutAll stops the traffic of all workers before it cuts any: else a server could end one's session and grant the lock to another.
func cutAll(s *play.Phase) (end func()) {
	everybody(links((*faultproxy.Proxy).Freeze))(s)
	return everybody(links((*faultproxy.Proxy).Cut))(s)
}

// slow delays the links of each worker, each by its own amount.
var slow = everybody(func(s *play.Phase, w *play.Worker) func() {
	delay := s.BetweenTTLs(0, 1.0/6)
	return links(func(l *faultproxy.Proxy) { l.Delay(delay) })(s, w)
})

// loseReplies loses single replies to holders.
func loseReplies(s *play.Phase) {
	s.Injected()
	for range 4 * injections {
		links := s.Holder().Endpoint.Links
		links[s.Rand.IntN(len(links))].DropReply(nil)
		s.Pause(0, 0.05)
	}
}

// loseAcquireReply grants a claim but loses the reply. The caller gives up before it can ask again, and another worker must get the lock before the
// claim's TTL has passed. On a busy machine it may come too late, so there are three tries.
func loseAcquireReply(s *play.Phase) {
	hasty, patient := s.Worker(), s.Worker()
	s.Warm(hasty)
	s.Warm(patient)
	for i := range 3 {
		name, begun := fmt.Sprintf("%s-%d", s.Name, i), history.Now()
		s.Injected()
		restore := links((*faultproxy.Proxy).BlackholeReplies)(s, hasty)
		if _, err := hasty.Acquire(name, s.TTL/8); err == nil {
			play.Check(fmt.Errorf("%s got the lock without a reply", hasty.Name))
		}
		restore()
		s.Healed()
		h, err := patient.AcquireAtLast(name, s.Limit(), s.Limit()) // the first attempt may find no server
		if err != nil {
			play.Check(fmt.Errorf("the lock stays with a worker that gave up: %w", err))
		}
		undone := h.Event(history.Got).At.Sub(begun) < s.TTL
		h.Release()
		if undone {
			return
		}
	}
	play.Check(errors.New("the claim of a worker that gave up ended by its TTL alone"))
}
