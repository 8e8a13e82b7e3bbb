package file

import "time"

const (
	// watchPeriod is how often a Backend that holds something checks that its files are still there.
	watchPeriod = 250 * time.Millisecond
	// touchPeriod is how often leases' files get the current time: many systems remove files unchanged for days from /tmp, as prune does.
	touchPeriod = time.Hour
)

// wallTime is the time by the wall clock, as that of files: the monotonic clock stands still while the machine is suspended.
func wallTime() time.Time { return time.Now().Round(0) }

// watch has checkFiles detect lock files that are removed or replaced while held. It is a timer, so nothing runs while nothing is held. The caller
// holds mu.
func (b *Backend) watch() {
	if b.timer == nil {
		b.touched = wallTime()
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
			b.touched = wallTime()
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
