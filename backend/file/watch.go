package file

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// watchPeriod is how often a Backend that holds something looks whether its files are still there.
const watchPeriod = 250 * time.Millisecond

// settled is how long a folder must not have changed before the time of its last change proves that nothing has changed since
// it was read: longer than the grain of that time on any file system in use.
const settled = 2 * time.Second

// freshen is how often the files of leases are written to again: many systems remove files that have not changed for days from
// /tmp.
const freshen = time.Hour

// watch finds lock files that were removed or replaced while held: from a timer, so that nothing runs while nothing is held. In
// the steady state it asks only for the folder, whose time of change moves with every removal and every replacement.
type watch struct {
	timer *time.Timer // nil: nothing is held
	fresh time.Time   // when the files were last written to again, or the watch began

	// Of the last look at every file; the zero value proves nothing.
	dir  os.FileInfo
	when time.Time
	all  int64 // leases granted until then: later ones are looked at first
	made int64 // leases granted so far
}

// start watches a new lease of b. The caller has b's mutex.
func (w *watch) start(b *Backend) {
	w.made++
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

// look tells those whose file is gone, and looks again later if anything is held.
func (b *Backend) look() {
	now := time.Now()
	dir, err := os.Stat(b.dir.path)

	b.mu.Lock()
	w := &b.watch
	if w.timer == nil || len(b.held) == 0 {
		w.timer = nil
		b.mu.Unlock()
		return
	}
	var leases []*lease
	if err != nil || !w.proves(dir) {
		for _, l := range b.held {
			leases = append(leases, l)
		}
		w.dir, w.when, w.all = dir, now, w.made
	}
	b.mu.Unlock()

	for _, l := range leases {
		if !l.isHere() {
			b.lose(l)
		}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if w.timer == nil {
		return
	}
	if now.Sub(w.fresh) > freshen {
		w.fresh = now
		for _, l := range b.held { // under the mutex, so that none of them is released, and claimed by another, meanwhile
			_, _ = l.file.WriteAt(l.record.encode(), int64(l.slot)*slotSize)
		}
	}
	w.timer.Reset(watchPeriod)
}

// proves says that no file can have been removed since the last look at all of them, given what the folder says now.
func (w *watch) proves(dir os.FileInfo) bool {
	return w.dir != nil && os.SameFile(w.dir, dir) && w.all == w.made &&
		changed(dir).Equal(changed(w.dir)) && w.when.Sub(changed(dir)) > settled
}

// lose ends l, whose file is gone, and tells its holder.
func (b *Backend) lose(l *lease) {
	b.mu.Lock()
	mine := l.state == held
	if mine {
		l.state = lost
		delete(b.held, keyOf(l.req))
	}
	b.mu.Unlock()
	if !mine {
		return
	}
	l.unlock(false)
	if l.req.Lost != nil {
		l.req.Lost(l.gone())
	}
}

// isAbsent says that nothing is at a path.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
