package file

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// watchPeriod is how often a Backend that holds something checks that its files are still there.
	watchPeriod = 250 * time.Millisecond
	// touchPeriod is how often leases' files get the current time: many systems remove files unchanged for days from /tmp, as prune does.
	touchPeriod = time.Hour
)

// watch detects lock files that were removed or replaced while held. It is a timer, so nothing runs while nothing is held. The backend's mutex guards
// it.
type watch struct {
	timer   *time.Timer // nil: nothing is held
	touched time.Time   // when the files last got the current time, or the watch began
}

// start watches what b holds. The caller holds b's mutex.
func (w *watch) start(b *Backend) {
	if w.timer == nil {
		w.touched = time.Now()
		w.timer = time.AfterFunc(watchPeriod, b.checkFiles)
	}
}

// stop ends the watch. The caller holds b's mutex.
func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// checkFiles tells the holders of missing files, and checks again later if anything is held.
func (b *Backend) checkFiles() {
	b.mu.Lock()
	leases := slices.Collect(maps.Values(b.held))
	b.mu.Unlock()
	for _, l := range leases {
		if here, err := l.main.isHere(); !here && err == nil {
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
		if time.Since(w.touched) > touchPeriod {
			w.touched = time.Now()
			for _, l := range b.held {
				l.touch(w.touched)
			}
		}
		w.timer.Reset(watchPeriod)
	}
}

// lose ends l, whose file is gone, and tells its holder.
func (b *Backend) lose(l *lease) {
	b.mu.Lock()
	mine := b.end(l, false)
	b.mu.Unlock()
	if mine && l.req.Lost != nil {
		l.req.Lost(l.lostError())
	}
}

const (
	// unused is how long a file must be unlocked before it is removed.
	unused = 7 * 24 * time.Hour
	// pruneEvery is how often a process that creates lock files looks for unused ones.
	pruneEvery = 24 * time.Hour
)

// prune removes unused files in the background, if it is time. The caller holds mu.
func (b *Backend) prune(now time.Time) {
	if now.Sub(b.dir.pruned) < pruneEvery {
		return
	}
	b.dir.pruned = now
	b.pruning.Go(func() {
		files, _ := os.ReadDir(b.dir.path) // with an error, those that could be read
		first := rand.N(len(files) + 1)    // so that short-lived processes together reach all files
		for _, file := range append(files[first:], files[:first]...) {
			b.mu.Lock()
			over := b.closed
			b.mu.Unlock()
			if over {
				return
			}
			if fi, err := file.Info(); err == nil && strings.HasSuffix(file.Name(), suffix) && now.Sub(fi.ModTime()) > unused {
				pruneOne(b.path(file.Name()), now)
			}
		}
	})
}

// pruneOne removes the file at path while it has it locked. A claim that locks it afterwards finds that it is no longer at its path. The name's next
// token comes from the clock.
func pruneOne(path string, now time.Time) {
	f, err := openLock(path, os.O_RDWR)
	if err != nil {
		return
	}
	defer f.Close()
	if locked, err := f.tryLock(); err != nil || !locked {
		return
	}
	if fi, err := os.Lstat(path); err == nil && os.SameFile(fi, f.info) && now.Sub(fi.ModTime()) > unused {
		_ = os.Remove(path)
	}
	_ = f.unlock()
}
