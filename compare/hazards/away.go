package hazards

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file take the lock, or the way to the servers, away from clients.

// tampered takes the lock of A away at the server, and looks when A is told; and then once more behind its back. The TTL is long enough for another worker to take
// the lock and write before the deadline of a holder that is stopped, and short enough for one that runs to look soon whether it still has its lock.
func tampered(remove removal) script {
	return func(p *trial) {
		p.patient(4 * time.Second)
		w, name := p.worker(), p.Name()+"-told"
		a := must(w.Acquire(p.ctx, name, lasting))
		p.sleep(holding) // votes that are still on their way would give A its lock back
		begun := history.Now()
		remove(p, name)
		class, said := p.toldSince(a, begun)
		p.found(class, "When its lock was taken away, A %s.", said)
		p.behindTheBack(w, remove)
	}
}

// removal takes the lock on name away from its holder.
type removal = func(p *trial, name string)

// behindTheBack has the holder stop in the middle of its work, takes its lock away, has another worker take the lock and write, and lets the holder go on, which
// writes too before it looks at its lock.
func (p *trial) behindTheBack(holder *play.Worker, remove removal) {
	other, a := p.worker(), p.holds(holder)
	check(holder.Stop())
	p.Injected()
	p.Note("A is stopped, and its lock taken away")
	begun := history.Now()
	remove(p, p.Name())
	b, err := p.acquire(other, p.Name(), lasting)
	if taken(err) {
		p.found(report.Safe, "B did not get the lock within %s.", text(lasting))
		return
	}
	check(err)
	p.write(b)
	p.sleep(believed)
	resumed := history.Now()
	check(holder.Resume())
	p.Note("A goes on, and writes")
	p.write(a)
	class, said := p.toldSince(a, resumed)
	p.Healed()
	p.found(class, "A was stopped, its lock was taken away, and B had it %s later; when A went on it wrote before it looked at its lock, and then %s.", text(p.after(begun, b)), said)
}

// removed has an operator remove a lock of lockport's, and articleDeleted the key of an article's lock.
func removed(p *trial, name string) { check(p.Remove(p.ctx, name)) }

func articleDeleted(p *trial, name string) {
	p.Note("%s%s", history.Removed, name)
	must(redisDo(p.ctx, p.Environment.Nodes()[0], "DEL", articleKey(name)))
}

// articleKey is the key of an article's lock.
func articleKey(name string) string { return "lock:" + name }

// redisDo sends a command to a Redis.
func redisDo(ctx context.Context, n environment.Node, args ...any) (any, error) {
	return n.(interface {
		Do(ctx context.Context, args ...any) (any, error)
	}).Do(ctx, args...)
}

// folderReplaced has an empty folder take the place of that with the locks.
func folderReplaced(p *trial, _ string) {
	path := must(p.Environment.Folder())
	p.Note("an empty folder takes the place of the one with the locks")
	moveAway(path)
	check(os.Mkdir(path, 0o700))
}

// moveAway moves a folder to where nobody looks for it, and returns what moves it back.
func moveAway(path string) (back func()) {
	away := filepath.Join(must(os.MkdirTemp(filepath.Dir(path), "old-")), filepath.Base(path))
	check(os.Rename(path, away))
	return func() { check(os.Rename(away, path)) }
}

// absence makes the server unreachable for workers, until back is called.
type absence = func(p *trial, w ...*play.Worker) (back func())

// silent has the network of workers fall silent, and closed has their connections closed, and no new ones accepted.
func silent(p *trial, w ...*play.Worker) (back func()) {
	p.Note("the network of A and B falls silent")
	return p.apart("silent", (*faultproxy.Proxy).Freeze, w...)
}

func closed(p *trial, w ...*play.Worker) (back func()) {
	p.Note("the network of A and B is cut")
	return p.apart("cut", (*faultproxy.Proxy).Cut, w...)
}

func folderAway(p *trial, _ ...*play.Worker) (back func()) {
	p.Note("the folder is moved away")
	return moveAway(must(p.Environment.Folder()))
}

const (
	// askedFor is the time limit of a worker that asks for a lock while the server is away. If it is exceeded by late, the caller counts as hung.
	askedFor, late = time.Second, 4 * time.Second
	// hung is when a Release that has not returned counts as hung; lockport's returns within 5 s.
	hung = 12 * time.Second
)

// away has A release a lock, and B ask for another lock, while the server is away for both, and C ask for A's lock when it is back.
func away(ttl time.Duration, gone absence) script {
	return func(p *trial) {
		p.patient(ttl)
		wa, wb, wc := p.workers()
		p.warmUp(wa, wb, wc)
		a, other := p.holds(wa), p.Name()+"-other"
		p.Injected()
		back := gone(p, wa, wb)
		released, over, from := p.releases(a), time.After(hung), p.Length()
		if _, err := wb.TryAcquire(p.ctx, other, askedFor); err == nil {
			check(errors.New("worker B got a lock while the server was away"))
		}
		returned := true
		select {
		case err := <-released:
			check(err)
		case <-over:
			returned = false
			p.found(report.Stuck, "A's Release had not returned after %s.", text(hung))
		case <-p.ctx.Done():
			check(context.Cause(p.ctx))
		}
		back()
		p.Healed()
		p.Note("the fault is over")
		p.answered(other, from)
		if returned {
			p.afterRelease(a, wc)
		}
	}
}

// afterRelease says what the release of a, which has returned, was told, and whether C then gets the lock.
func (p *trial) afterRelease(a *play.Hold, c *play.Worker) {
	ended := p.event(a, history.Released)
	took := text(ended.At.Sub(p.event(a, history.Releasing).At))
	if ended.Err == "" {
		switch _, err := c.TryAcquire(p.ctx, p.Name(), lasting); {
		case err == nil:
			p.found(report.Safe, "A's Release returned after %s without an error, and when the server was back C had A's lock at once.", took)
		case refusedFor(err, history.ClassHeld):
			p.found(report.Misled, "A's Release returned after %s without an error, and when the server was back the lock was still taken: C was refused.", took)
		default:
			check(err)
		}
		return
	}
	p.found(report.Unavailable, "A's Release returned after %s with an error: %s.", took, told(ended.Class))
	begun := time.Now()
	switch _, err := p.acquire(c, p.Name(), lasting); {
	case taken(err):
		p.found(report.Stuck, "When the server was back, C waited for A's lock for %s in vain.", text(lasting))
	default:
		check(err)
		p.found(report.Unavailable, "When the server was back, C had A's lock after %s.", text(time.Since(begun)))
	}
}

// answered says what B was told, which asked for a lock that nobody had.
func (p *trial) answered(name string, from int) {
	var asked, failed history.Event
	for _, e := range p.Events()[from:] {
		switch {
		case e.Name == name && e.Kind == history.Asked:
			asked = e
		case e.Name == name && e.Kind == history.Failed:
			failed = e
		}
	}
	took := failed.At.Sub(asked.At)
	switch {
	case failed.Class == history.ClassHeld:
		p.found(report.Misled, "B was told that somebody else had a lock that nobody had (after %s).", text(took))
	case took > askedFor+late:
		p.found(report.Stuck, "B hung: its attempt, with a limit of %s, returned after %s.", text(askedFor), text(took))
	default:
		p.found(report.Unavailable, "B's attempt, with a limit of %s, returned after %s with an error: %s.", text(askedFor), text(took), told(failed.Class))
	}
}

// told says for people what an error tells a caller.
func told(c history.Class) string {
	switch c {
	case history.ClassUnavailable:
		return "the server cannot be reached"
	case history.ClassRefused:
		return "the server does not allow it"
	case history.ClassTimedOut:
		return "no answer in time"
	case history.ClassLost:
		return "the lock is lost"
	}
	return endingOf(c)
}
