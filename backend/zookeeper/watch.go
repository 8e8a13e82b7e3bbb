package zookeeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// watch is what is to be called when something happens to a node. A server tells once, so all who are interested share one.
type watch struct {
	armed bool // the server has been told
	calls []*subscription
}

// subscription is a function called at most once, which must not block.
type subscription struct{ f func() }

// watch calls f when something happens to the node at path. exists: it was there. If it was not, or err is not nil, f will not be called.
// stop calls it off.
func (l *life) watch(ctx context.Context, path string, f func()) (exists bool, stop func(), err error) {
	s := &subscription{f}
	stop = func() { l.unsubscribe(path, s) }
	l.mu.Lock()
	if l.over != nil {
		defer l.mu.Unlock()
		return false, stop, l.over
	}
	w := l.watches[path]
	if w == nil {
		w = new(watch)
		l.watches[path] = w
	}
	w.calls = append(w.calls, s)
	armed := w.armed
	l.mu.Unlock()
	if armed {
		return true, stop, nil
	}
	exists, err = askLibrary(ctx, l, func() (bool, error) { return l.arm(path, w) })
	if err != nil || !exists {
		stop()
	}
	return exists, stop, err
}

// arm tells the server of w, the watch at path. It is not left on a node that is not there: nobody would ever remove it.
func (l *life) arm(path string, w *watch) (exists bool, err error) {
	_, _, _, err = l.conn.GetW(path)
	if errors.Is(err, zk.ErrNoAuth) { // a foreign node; that it is there everybody may know
		exists, _, _, err = l.conn.ExistsW(path)
	} else {
		exists = err == nil
	}
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if exists && err == nil {
		l.mu.Lock()
		if l.watches[path] == w { // if it has not fired already
			w.armed = true
		}
		l.mu.Unlock()
	}
	return exists, err
}

func (l *life) unsubscribe(path string, s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watches[path]
	if w == nil {
		return
	}
	w.calls = slices.DeleteFunc(w.calls, func(o *subscription) bool { return o == s })
	if len(w.calls) == 0 && !w.armed { // one that is armed serves the next who is interested
		delete(l.watches, path)
	}
}

// fire is called when something has happened to the node at path.
func (l *life) fire(path string) {
	l.mu.Lock()
	w := l.watches[path]
	delete(l.watches, path)
	l.mu.Unlock()
	if w != nil {
		for _, s := range w.calls {
			s.f()
		}
	}
}

// The nodes of what is held are watched, but not at once: most holds are shorter than it takes to say so.
const (
	armAfter  = 50 * time.Millisecond
	armAgain  = 100 * time.Millisecond
	maxArmers = 8
)

// keep makes a granted claim one that is told of its loss. false: the life has ended.
func (l *life) keep(c *claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return false
	}
	l.held[c] = struct{}{}
	l.armLater(c, armAfter)
	return true
}

// drop is the reverse.
func (l *life) drop(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, c)
}

// armLater has the node of c watched after d. l.mu is held.
func (l *life) armLater(c *claim, d time.Duration) {
	l.arming = append(l.arming, arming{c, time.Now().Add(d)})
	if l.armers == 0 {
		l.armers++
		l.armer = time.AfterFunc(d, l.armAll) // by then most are released
	}
}

// arming is a claim whose node is to be watched.
type arming struct {
	claim *claim
	due   time.Time
}

// armAll has nodes watched until there is none left to begin with.
func (l *life) armAll() {
	for {
		l.mu.Lock()
		if len(l.arming) == 0 {
			l.armers--
			l.mu.Unlock()
			return
		}
		next := l.arming[0]
		l.arming = l.arming[1:]
		if _, held := l.held[next.claim]; !held {
			l.mu.Unlock()
			continue
		}
		if len(l.arming) > 0 && l.armers < maxArmers && !time.Now().Before(l.arming[0].due) {
			l.armers++
			go l.armAll()
		}
		l.mu.Unlock()
		if wait := time.Until(next.due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-l.ctx.Done():
			}
			timer.Stop()
		}
		ctx, cancel := context.WithTimeout(l.ctx, l.timeout())
		err := next.claim.watchNode(ctx)
		cancel()
		if err != nil {
			l.mu.Lock()
			if _, held := l.held[next.claim]; held {
				l.armLater(next.claim, armAgain)
			}
			l.mu.Unlock()
		}
	}
}
