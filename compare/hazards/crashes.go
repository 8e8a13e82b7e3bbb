package hazards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// h1 is a crash in the middle of acquiring.
var h1 = everywhere(crashedClaim, onRedis(crashedClaim, "setnx-then-expire"), scenario{
	hazard: "H1", subject: "file", world: "file", script: killedWhileAsking,
	setup: "a folder of one machine; a process is killed (kill -9) while it asks for the lock, or has just got it, and another one waits for it",
})

var crashedClaim = scenario{
	hazard: "H1", script: cutInTheMiddle,
	setup: "A is cut off after the first request of its claim and killed (kill -9), in further rounds others after the second and the third; B asks for the lock then",
}

// h2 is a waiter whose attempts prolong the lock of somebody else.
var h2 = everywhere(askedAllTheTime, onRedis(askedAllTheTime, "expire-after-failed-setnx"))

var askedAllTheTime = scenario{
	hazard: "H2", script: askedForADeadOnes,
	setup: "A has the lock and is killed (kill -9); B asks for it every eighth of the TTL",
}

// h15 is a holder that crashes.
var h15 = everywhere(crashedHolder, onRedis(crashedHolder, "setnx-without-expiry"))

var crashedHolder = scenario{
	hazard: "H15", script: waitedForADeadOnes,
	setup: "A has the lock and is killed (kill -9); B waits for it",
}

// claimRequests is after how many requests of a claim a process is cut off, at most.
const claimRequests = 3

// cutInTheMiddle lets claims get as far as their first request, their second, and so on, until one is through.
func cutInTheMiddle(ctx context.Context, p *trial) error {
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	a, b := w[0], w[1]
	var had []string
	for k := 1; k <= claimRequests; k++ {
		if k > 1 {
			if a, err = p.Worker(ctx); err != nil {
				return err
			}
		}
		killed, err := p.cutAfter(ctx, a, k)
		if err != nil {
			return err
		}
		if killed == 0 {
			break
		}
		h, err := p.waits(ctx, b, p.limit())
		if err != nil {
			return p.stuck(err, killed, fmt.Sprintf("%s was killed in the middle of its claim, after request %d,", lane(a.Name), k))
		}
		had = append(had, fmt.Sprintf("%s after %s was killed in the middle of its claim, after request %d", text(p.after(killed, h)), lane(a.Name), k))
		p.Healed()
		if err := h.Release(ctx); err != nil {
			return err
		}
	}
	if len(had) == 0 {
		return errors.New("no claim was cut off")
	}
	p.found(report.Safe, "B had the lock %s.", strings.Join(had, ", and "))
	return nil
}

// cutAfter has a worker claim the lock, cuts it off after k requests and kills it, and returns when; 0 if it had the lock before, which it then releases.
func (p *trial) cutAfter(ctx context.Context, w *play.Worker, k int) (killed history.Instant, err error) {
	if err := p.warm(ctx, w); err != nil {
		return 0, err
	}
	var cut sync.WaitGroup
	all, any := make(chan struct{}), make(chan struct{}, len(w.Endpoint.Links))
	for _, l := range w.Endpoint.Links {
		severed := l.SeverAfter(k)
		cut.Go(func() {
			select {
			case <-severed:
				any <- struct{}{}
			case <-ctx.Done():
			}
		})
	}
	go func() { cut.Wait(); close(all) }()
	claim, err := p.ask(ctx, w, p.limit())
	if err != nil {
		return 0, err
	}
	select {
	case <-claim.over:
	case <-any:
		select {
		case <-all: // five servers are asked at the same time
		case <-time.After(50 * time.Millisecond): // of three, one is asked
		}
	}
	select {
	case <-claim.over:
		if claim.err == nil {
			for _, l := range w.Endpoint.Links {
				l.Restore()
			}
			return 0, claim.hold.Release(ctx)
		}
	default:
	}
	for _, l := range w.Endpoint.Links {
		l.Cut()
	}
	p.Injected()
	p.Note("%s has been cut off after request %d of its claim, and is killed", w.Name, k)
	p.cutOff(w, "cut off")
	return history.Now(), w.Kill()
}

// warm has behind it what is done but once, connecting for instance, and making the place where a server keeps the claims of this lock.
func (p *trial) warm(ctx context.Context, w *play.Worker) error {
	h, err := p.waits(ctx, w, p.limit())
	if err != nil {
		return err
	}
	return h.Release(ctx)
}

// killedWhileAsking kills processes at moments about that in which they get the lock.
func killedWhileAsking(ctx context.Context, p *trial) error {
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	a, b := w[0], w[1]
	var had []string
	for round := range rounds {
		if round > 0 {
			if a, err = p.Worker(ctx); err != nil {
				return err
			}
		}
		if _, err := p.ask(ctx, a, p.limit()); err != nil {
			return err
		}
		if err := p.Sleep(ctx, time.Duration(round)*2*time.Millisecond); err != nil {
			return err
		}
		p.Injected()
		killed := history.Now()
		if err := a.Kill(); err != nil {
			return err
		}
		h, err := p.waits(ctx, b, p.limit())
		if err != nil {
			return p.stuck(err, killed, fmt.Sprintf("%s was killed while it asked", lane(a.Name)))
		}
		p.Healed()
		had = append(had, text(p.after(killed, h)))
		if err := h.Release(ctx); err != nil {
			return err
		}
	}
	p.found(report.Safe, "%d processes were killed while they asked, or just after; B had the lock %s after that.", len(had), strings.Join(had, ", "))
	return nil
}

// askedForADeadOnes has a holder die, and somebody ask for its lock again and again.
func askedForADeadOnes(ctx context.Context, p *trial) error {
	b, killed, err := p.died(ctx)
	if err != nil {
		return err
	}
	h, n, err := p.tries(ctx, b, p.Environment.TTL/8, p.limit(), nil)
	if err == nil {
		p.Healed()
		p.found(report.Safe, "B had the lock %s after A was killed, when it asked for the %s time.", text(p.after(killed, h)), ordinal(n))
		return h.Release(ctx)
	}
	if err := p.stuck(err, killed, fmt.Sprintf("A was killed, and after %d attempts of B,", n)); err != nil {
		return err
	}
	quiet := p.Environment.TTL * 3 / 2
	if err := p.Sleep(ctx, quiet); err != nil {
		return err
	}
	if h, err = b.TryAcquire(ctx, p.Name(), p.Environment.TTL); err != nil {
		return nil // what is found already says enough
	}
	p.found(report.Stuck, "When B had left it alone for %s, it could be had: whoever asked had prolonged it.", text(quiet))
	return h.Release(ctx)
}

// waitedForADeadOnes has a holder die for whose lock somebody waits.
func waitedForADeadOnes(ctx context.Context, p *trial) error {
	b, killed, err := p.died(ctx)
	if err != nil {
		return err
	}
	h, err := p.waits(ctx, b, p.limit())
	if err != nil {
		return p.stuck(err, killed, "A was killed")
	}
	p.Healed()
	p.found(report.Safe, "B, which waited, had the lock %s after A was killed.", text(p.after(killed, h)))
	return h.Release(ctx)
}

// died has a worker, A, that has the lock, die, and returns another one, B, and when that was.
func (p *trial) died(ctx context.Context) (b *play.Worker, killed history.Instant, err error) {
	w, err := p.workers(ctx, 2)
	if err != nil {
		return nil, 0, err
	}
	if _, err := p.waits(ctx, w[0], p.limit()); err != nil {
		return nil, 0, err
	}
	if err := p.Sleep(ctx, holding); err != nil {
		return nil, 0, err
	}
	p.Injected()
	p.Note("A is killed")
	killed = history.Now()
	return w[1], killed, w[0].Kill()
}

// ordinal is "1st" for 1.
func ordinal(n int) string {
	end := "th"
	switch {
	case n%10 == 1 && n%100 != 11:
		end = "st"
	case n%10 == 2 && n%100 != 12:
		end = "nd"
	case n%10 == 3 && n%100 != 13:
		end = "rd"
	}
	return fmt.Sprint(n, end)
}
