package hazards

import (
	"cmp"
	"errors"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// In the scripts of this file the network is slow, busy or down.

// slowAnswers has A get the lock through late answers, or without those of some servers. Then A gets no answers at all, while B asks for the lock. A
// holder that counts from the answer would still believe in an expired lock.
func slowAnswers(note string, slow func(links faultproxy.Group)) play.Act {
	return func(s *play.Phase) {
		wa, wb := s.Worker(), s.Worker()
		s.Warm(wa)
		s.Injected()
		s.Note("%s", note)
		slow(wa.Endpoint.Links)
		a := play.Must(wa.Acquire(s.Name, play.MaxWait))
		s.Note("A has the lock, and its network falls silent")
		defer s.Apart(wa, "silent", wa.Endpoint.Links, freeze)(drop)
		b := s.Acquire(wb)
		s.Until(play.MaxWait, func() bool { return !a.Valid() })
		s.Healed()
		asked, had := a.Event(history.Asked).At, a.Event(history.Got).At
		s.Found(report.Safe, "A needed %s to get the lock, and then trusted it for %s; the TTL is %s.", text(had.Sub(asked)), text(a.Deadline.Sub(had)), text(s.TTL))
		if gap := after(a.Deadline, b); gap > 0 {
			s.Found(report.Safe, "B got the lock %s after A stopped trusting it.", text(gap))
		}
	}
}

// delayed delays what is sent; lastTwoSilent silences two of five servers.
func delayed(by time.Duration) func(faultproxy.Group) {
	return func(links faultproxy.Group) { links.Each(func(l *faultproxy.Proxy) { l.Delay(by) }) }
}

func lastTwoSilent(links faultproxy.Group) { links[3:].Each(freeze) }

// lastAnswer has A wait for a server that does not answer, while B asks for the lock too and gets all answers.
func lastAnswer(s *play.Phase) {
	wa, wb := s.Worker(), s.Worker()
	s.Injected()
	s.Note("one of the five servers does not answer A")
	defer s.Apart(wa, "one of the five does not answer", wa.Endpoint.Links[4:], freeze)(drop)
	slow := s.Asks(wa)
	s.Wait(s.TTL / 4)
	b := s.Acquire(wb)
	a := slow.Got()
	asked := a.Event(history.Asked).At
	s.Found(report.Safe, "A needed %s to get the lock, which the servers keep for %s. They granted it to B %s after A asked.",
		text(after(asked, a)), text(s.TTL), text(after(asked, b)))
	s.Both(a, b)
}

func waitersCounted(s *play.Phase) {
	const watched, many = 3 * time.Second, 10 // more requests a second from each waiter count as busy
	holder := s.Worker()
	waiters := []*play.Worker{s.Worker(), s.Worker(), s.Worker()}
	s.Warm(waiters...)
	a := s.Acquire(holder)
	var links faultproxy.Group
	for _, w := range waiters {
		s.Asks(w)
		links = append(links, w.Endpoint.Links...)
	}
	s.Wait(time.Second / 2) // until all wait
	s.Note("counting of the waiters' requests begins")
	begun, before := history.Now(), links.Requests()
	s.Wait(watched)
	n, took := links.Requests()-before, history.Now().Sub(begun)
	s.Note("counting ends, and A releases")
	a.Release()
	class, each := report.Safe, float64(n)/took.Seconds()/3
	if each > many {
		class = report.Costly
	}
	s.Found(class, "Each of the three waiters sent %.1f requests a second (all together %d in %s).", each, n, text(took))
}

// outage makes the servers unreachable for workers until back is called.
type outage = func(s *play.Phase, a, b *play.Worker) (back func())

func unreachable(note, what string, harm func(*faultproxy.Proxy)) outage {
	return func(s *play.Phase, a, b *play.Worker) func() {
		s.Note("the network of A and B %s", note)
		first, second := s.Apart(a, what, a.Endpoint.Links, harm), s.Apart(b, what, b.Endpoint.Links, harm)
		return func() { first(drop); second(drop) }
	}
}

var silently, openly = unreachable("falls silent", "silent", freeze), unreachable("is cut", "cut", sever)

func folderAway(s *play.Phase, _, _ *play.Worker) (back func()) {
	s.Note("the folder is moved away")
	return faults.FolderAway(s)
}

// away makes the server unreachable for A and B. A releases its lock, and B asks for another one. When the server is back, C asks for A's lock.
func away(gone outage) play.Act {
	const (
		askedFor = time.Second      // B's time limit
		slow     = 4 * time.Second  // B hung if it took this much longer
		hung     = 12 * time.Second // Release hung if it took this long; lockport's returns within 5 s
	)
	return func(s *play.Phase) {
		wa, wb, wc := s.Worker(), s.Worker(), s.Worker()
		s.Warm(wa, wb, wc)
		a := holds(s, wa)
		s.Injected()
		back := gone(s, wa, wb)
		released, begun := s.Releases(a), time.Now()
		_, err := wb.TryAcquire(s.Name+"-other", askedFor)
		refusal, ok := errors.AsType[*play.AcquireError](err)
		if !ok {
			play.Check(errors.Join(err, errors.New("client B was not refused while the server was away")))
		}
		switch took := time.Since(begun); {
		case refusal.Class == history.ClassHeld:
			s.Found(report.Misled, "B was told after %s that somebody else held a lock that was free.", text(took))
		case took > askedFor+slow:
			s.Found(report.Stuck, "B hung: its attempt with a limit of %s returned after %s.", text(askedFor), text(took))
		default:
			s.Found(report.Unavailable, "B's attempt with a limit of %s failed after %s: %s.", text(askedFor), text(took), said(refusal.Class))
		}
		returned := s.Until(hung, released.Ended)
		back()
		s.Healed()
		s.Note("the fault is over")
		if !returned {
			s.Found(report.Stuck, "A's Release had not returned after %s.", text(hung))
			return
		}
		play.Check(released.Err)
		afterRelease(s, a, wc)
	}
}

// afterRelease reports what A's Release returned, and whether C then gets the lock.
func afterRelease(s *play.Phase, a *play.Hold, c *play.Worker) {
	ended := a.Event(history.Released)
	took, back := text(ended.At.Sub(a.Event(history.Releasing).At)), history.Now()
	if ended.Err != "" {
		s.Found(report.Unavailable, "A's Release failed after %s: %s.", took, said(ended.Class))
		takesOver(s, c, back, "the server was back")
		return
	}
	switch _, err := c.TryAcquire(s.Name, play.MaxWait); {
	case err == nil:
		s.Found(report.Safe, "A's Release returned after %s without an error. When the server was back, C got A's lock at once.", took)
	case play.IsRefusal(err, history.ClassHeld):
		s.Found(report.Misled, "A's Release returned after %s without an error. But when the server was back, the lock was still taken: C was refused.", took)
	default:
		play.Check(err)
	}
}

// said is what an error says to a caller.
func said(c history.Class) string {
	known := map[history.Class]string{
		history.ClassUnavailable: "the server cannot be reached", history.ClassRefused: "the server refuses", history.ClassTimedOut: "no answer in time",
		history.ClassLost: "the lock is lost", history.ClassHeld: "somebody else has it",
	}
	return cmp.Or(known[c], string(c))
}
