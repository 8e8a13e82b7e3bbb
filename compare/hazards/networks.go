package hazards

import (
	"errors"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file have a slow network, a busy one, or none.

// slowAnswers has A get the lock by answers that come late, or that some servers do not give, and then no answers at all, while B asks for the lock. A holder that
// counts from the answer would still believe in a lock that has ended.
func slowAnswers(note string, slow func(links faultproxy.Group)) play.Act {
	return func(s *play.Phase) {
		wa, wb := s.Worker(), s.Worker()
		s.Warm(wa)
		s.Injected()
		s.Note("%s", note)
		slow(wa.Endpoint.Links)
		a := play.Must(wa.Acquire(s.Name(), lasting))
		s.Note("A has the lock, and its network falls silent")
		defer s.Apart(wa, "silent", wa.Endpoint.Links, freeze)(drop)
		b := s.Acquire(wb)
		s.Until(lasting, func() bool { return !a.Valid() })
		s.Healed()
		asked, had := a.Event(history.Asked).At, a.Event(history.Got).At
		found(s, report.Safe, "It took A %s to get the lock, and A believed in it for %s more; the TTL is %s.", text(had.Sub(asked)), text(a.Deadline.Sub(had)), text(s.TTL))
		if gap := after(a.Deadline, b); gap > 0 {
			found(s, report.Safe, "B had the lock %s after A's belief had ended.", text(gap))
		}
	}
}

// late delays what is sent, and hung makes two of five servers not answer.
func late(by time.Duration) func(faultproxy.Group) {
	return func(links faultproxy.Group) { links.Each(func(l *faultproxy.Proxy) { l.Delay(by) }) }
}

func hung(links faultproxy.Group) { links[3:].Each(freeze) }

// lastAnswer has A wait for a server that does not answer, while B, to which all servers answer, asks for the lock too.
func lastAnswer(s *play.Phase) {
	wa, wb := s.Worker(), s.Worker()
	s.Injected()
	s.Note("one of the five servers does not answer A")
	defer s.Apart(wa, "one of the five does not answer", wa.Endpoint.Links[4:], freeze)(drop)
	slow := s.Asks(wa, lasting)
	s.Wait(s.TTL / 4)
	b := s.Acquire(wb)
	a := slow.Got()
	asked := a.Event(history.Asked).At
	found(s, report.Safe, "It took A %s to get the lock, which the servers keep for %s; they gave it to B %s after A had asked.",
		text(after(asked, a)), text(s.TTL), text(after(asked, b)))
	s.Both(a, b)
}

// waitersCounted counts the requests of three processes that wait for a lock.
func waitersCounted(s *play.Phase) {
	const watched, many = 3 * time.Second, 10 // so many requests a second of each make work of waiting
	holder := s.Worker()
	waiters := []*play.Worker{s.Worker(), s.Worker(), s.Worker()}
	s.Warm(waiters...)
	a := s.Acquire(holder)
	var links faultproxy.Group
	for _, w := range waiters {
		s.Asks(w, lasting)
		links = append(links, w.Endpoint.Links...)
	}
	s.Wait(time.Second / 2) // until all have begun to wait
	s.Note("the requests of those who wait are counted from here on")
	begun, before := history.Now(), links.Requests()
	s.Wait(watched)
	n, took := links.Requests()-before, history.Now().Sub(begun)
	s.Note("they have been counted, and A releases")
	a.Release()
	class, each := report.Safe, float64(n)/took.Seconds()/3
	if each > many {
		class = report.Costly
	}
	found(s, class, "Each of the three processes that waited sent %.1f requests a second (%d in %s by all of them).", each, n, text(took))
}

// absence makes the servers unreachable for workers until back is called.
type absence = func(s *play.Phase, a, b *play.Worker) (back func())

// unreachable harms all links of A and B.
func unreachable(note, what string, harm func(*faultproxy.Proxy)) absence {
	return func(s *play.Phase, a, b *play.Worker) func() {
		s.Note("the network of A and B %s", note)
		first, second := s.Apart(a, what, a.Endpoint.Links, harm), s.Apart(b, what, b.Endpoint.Links, harm)
		return func() { first(drop); second(drop) }
	}
}

var silently, openly = unreachable("falls silent", "silent", freeze), unreachable("is cut", "cut", sever)

func folderAway(s *play.Phase, _, _ *play.Worker) (back func()) {
	s.Note("the folder is moved away")
	folder := s.Environment.Servers.(*environment.Folder)
	away := play.Must(folder.MoveAway())
	return func() { play.Check(folder.MoveBack(away)) }
}

// away has A release a lock, and B ask for another lock, while the server is away for both. C asks for A's lock when it is back.
func away(gone absence) play.Act {
	const (
		askedFor = time.Second      // B's time limit
		slow     = 4 * time.Second  // if B takes so much longer, it hung
		hung     = 12 * time.Second // if Release takes so long, it hung; lockport's returns within 5 s
	)
	return func(s *play.Phase) {
		wa, wb, wc := s.Worker(), s.Worker(), s.Worker()
		s.Warm(wa, wb, wc)
		a := holds(s, wa)
		s.Injected()
		back := gone(s, wa, wb)
		released, begun := s.Releases(a), time.Now()
		_, err := wb.TryAcquire(s.Name()+"-other", askedFor)
		refusal := new(play.AcquireError)
		if !errors.As(err, &refusal) {
			play.Check(errors.Join(err, errors.New("client B was not refused a lock while the server was away")))
		}
		switch took := time.Since(begun); {
		case refusal.Class == history.ClassHeld:
			found(s, report.Misled, "B was told that somebody else had a lock that nobody had (after %s).", text(took))
		case took > askedFor+slow:
			found(s, report.Stuck, "B hung: its attempt, with a limit of %s, returned after %s.", text(askedFor), text(took))
		default:
			found(s, report.Unavailable, "B's attempt, with a limit of %s, returned after %s with an error: %s.", text(askedFor), text(took), said(refusal.Class))
		}
		returned := s.Until(hung, released.Ended)
		back()
		s.Healed()
		s.Note("the fault is over")
		if !returned {
			found(s, report.Stuck, "A's Release had not returned after %s.", text(hung))
			return
		}
		play.Check(released.Err)
		afterRelease(s, a, wc)
	}
}

// afterRelease says what A's Release, which has returned, was told, and whether C then gets the lock.
func afterRelease(s *play.Phase, a *play.Hold, c *play.Worker) {
	ended := a.Event(history.Released)
	took, back := text(ended.At.Sub(a.Event(history.Releasing).At)), history.Now()
	if ended.Err != "" {
		found(s, report.Unavailable, "A's Release returned after %s with an error: %s.", took, said(ended.Class))
		next(s, c, back, "the server was back")
		return
	}
	switch _, err := c.TryAcquire(s.Name(), lasting); {
	case err == nil:
		found(s, report.Safe, "A's Release returned after %s without an error, and when the server was back C had A's lock at once.", took)
	case play.IsRefusal(err, history.ClassHeld):
		found(s, report.Misled, "A's Release returned after %s without an error, and when the server was back the lock was still taken: C was refused.", took)
	default:
		play.Check(err)
	}
}

// said is what an error tells a caller.
func said(c history.Class) string {
	known := map[history.Class]string{
		history.ClassUnavailable: "the server cannot be reached", history.ClassRefused: "the server does not allow it", history.ClassTimedOut: "no answer in time",
		history.ClassLost: "the lock is lost", history.ClassHeld: "somebody else has it",
	}
	if text, ok := known[c]; ok {
		return text
	}
	return string(c)
}
