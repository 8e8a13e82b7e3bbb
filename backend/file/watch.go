package file

import (
	"os"
	"time"
)

const (
	// watchPeriod is how often a Backend that holds something checks that its files are still there.
	watchPeriod = 250 * time.Millisecond
	// touchPeriod is how often leases' files get the current time: many systems remove files unchanged for days from /tmp, as prune does.
	touchPeriod = time.Hour
)

// now is the time by the wall clock, as that of files: the monotonic clock stands still while the machine is suspended.
func now() time.Time { return time.Now().Round(0) }

// watch has checkFiles detect lock files that are removed or replaced while held. It is a timer, so nothing runs while nothing is held. The caller
// holds mu.
func (b *Backend) watch() {
	if b.timer == nil {
		b.touched = now()
		b.timer = time.AfterFunc(watchPeriod, b.checkFiles)
	}
}

// checkFiles tells the holders of missing files, and checks again later if anything is held.
func (b *Backend) checkFiles() {
	var lost []*lease
	b.mu.Lock()
	for _, l := range b.held {
		if here, err := l.main.isHere(); !here && err == nil {
			b.end(l)
			lost = append(lost, l)
		}
	}
	if len(b.held) == 0 {
		b.timer = nil
	} else {
		b.timer = time.AfterFunc(watchPeriod, b.checkFiles)
		if time.Since(b.touched) > touchPeriod {
			b.touched = now()
			for _, l := range b.held {
				l.touch(b.touched)
			}
		}
	}
	b.mu.Unlock()
	for _, l := range lost {
		if l.req.Lost != nil {
			l.req.Lost(l.lostError())
		}
	}
}

const (
	// unused is how long a file must be unlocked before it is removed.
	unused = 7 * 24 * time.Hour
	// pruneEvery is how often a process that creates lock files looks for unused ones.
	pruneEvery = 24 * time.Hour
)

// prune removes unused files in the background, if it is time. Close waits for it. The caller holds mu.
func (b *Backend) prune(now time.Time) {
	if now.Sub(b.dir.pruned) < pruneEvery {
		return
	}
	b.dir.pruned = now
	b.pruning.Go(func() {
		files, _ := os.ReadDir(b.dir.path) // with an error, those that could be read
		for _, file := range files {
			if fi, err := file.Info(); err == nil && lockFileName.MatchString(file.Name()) && now.Sub(fi.ModTime()) > unused {
				pruneOne(b.path(file.Name()), now)
			}
		}
	})
}

// pruneOne removes the file at path while it has it locked. A claim that locks it afterwards finds that it is no longer at its path. The name's next
// token comes from the clock, so a file whose token is ahead of that stays.
func pruneOne(path string, now time.Time) {
	f, err := openLock(path, os.O_RDWR)
	if err != nil {
		return
	}
	defer f.close()
	if f.tryLock() != nil {
		return
	}
	fi, err := os.Lstat(path)
	if err == nil && f.read() == nil && os.SameFile(fi, f.info) && now.Sub(fi.ModTime()) > unused && f.record.token < uint64(now.UnixMicro()) {
		_ = os.Remove(path)
	}
}
