package file

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// watchPeriod is how often a Backend that holds something looks whether its files are still there.
	watchPeriod = 250 * time.Millisecond
	// freshen is how often the files of leases get the present time: many systems remove files that have not changed for days from /tmp, and so does
	// prune.
	freshen = time.Hour
)

// watch finds lock files that were removed or replaced while held: from a timer, so that nothing runs while nothing is held. The backend's mutex guards
// it.
type watch struct {
	timer *time.Timer // nil: nothing is held
	fresh time.Time   // when the files last got the present time, or the watch began
}

// start watches what b holds. The caller has b's mutex.
func (w *watch) start(b *Backend) {
	if w.timer == nil {
		w.fresh = time.Now()
		w.timer = time.AfterFunc(watchPeriod, b.look)
	}
}

// stop ends the watch. The caller has b's mutex.
func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// look tells the holders of files that are gone, and looks again later if anything is held.
func (b *Backend) look() {
	b.mu.Lock()
	leases := slices.Collect(maps.Values(b.held))
	b.mu.Unlock()
	for _, l := range leases {
		if !l.isHere() {
			b.lose(l)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch w := &b.watch; {
	case w.timer == nil: // closed
	case len(b.held) == 0:
		w.timer = nil
	default:
		if time.Since(w.fresh) > freshen {
			w.fresh = time.Now()
			for _, l := range b.held {
				l.freshen(w.fresh)
			}
		}
		w.timer.Reset(watchPeriod)
	}
}

// lose ends l, whose file is gone, and tells its holder.
func (b *Backend) lose(l *lease) {
	b.mu.Lock()
	mine := b.end(l)
	if mine {
		l.unlock(false)
	}
	b.mu.Unlock()
	if mine && l.req.Lost != nil {
		l.req.Lost(l.gone())
	}
}

const (
	// unused is for how long nobody must have locked a file before it is removed.
	unused = 7 * 24 * time.Hour
	// pruneEvery is how often a process that makes lock files looks for such files.
	pruneEvery = 24 * time.Hour
)

// prune removes the files that nobody has locked for long, in the background, if it is time for that. The caller has the mutex.
func (b *Backend) prune(now time.Time) {
	if now.Sub(b.dir.pruned) < pruneEvery {
		return
	}
	b.dir.pruned = now
	b.pruning.Go(func() {
		files, _ := os.ReadDir(b.dir.path) // with an error, what could be read
		first := rand.N(len(files) + 1)    // processes that live for moments get everywhere all the same
		for _, file := range append(files[first:], files[:first]...) {
			b.mu.Lock()
			over := b.closed
			b.mu.Unlock()
			if over {
				return
			}
			if fi, err := file.Info(); err == nil && strings.HasSuffix(file.Name(), suffix) && now.Sub(fi.ModTime()) > unused {
				pruneOne(filepath.Join(b.dir.path, file.Name()), now)
			}
		}
	})
}

// pruneOne removes the file at path while it has it locked: a claim that locks it afterwards finds that it is not at its path any more. The next
// token of the name comes from the clock.
func pruneOne(path string, now time.Time) {
	f, err := openLock(path, os.O_RDWR)
	if err != nil {
		return
	}
	defer f.Close()
	if locked, err := tryFlock(f); err != nil || !locked {
		return
	}
	if fi, here := isAt(f, path); here && now.Sub(fi.ModTime()) > unused {
		_ = os.Remove(path)
	}
	_ = unflock(f)
}
