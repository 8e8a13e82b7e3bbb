package file

import "time"

const (
	// watchPeriod is how often a Backend that holds something checks that its files are still there.
	watchPeriod = 250 * time.Millisecond
	// touchPeriod is how often leases' files get the current time: many systems remove files unchanged for days from /tmp, as prune does.
	touchPeriod = time.Hour
)

// watch has checkFiles detect lock files that are removed or replaced while held. It is a timer, so nothing runs while nothing is held. The caller
// holds mu.
func (b *Backend) watch() {
	if b.timer == nil {
		b.timer = time.AfterFunc(watchPeriod, b.checkFiles)
	}
}

// checkFiles tells the holders of missing files, and checks again later if anything is held.
func (b *Backend) checkFiles() {
	now := time.Now().Round(0) // by the wall clock, as files' times: the monotonic clock stands still while the machine is suspended
	b.mu.Lock()
	defer b.mu.Unlock()
	touch := now.Sub(b.touched).Abs() > touchPeriod // in either direction: the clock may have been set back
	if touch {
		b.touched = now
	}
	b.timer = nil
	for _, c := range b.claims {
		if c.own == nil {
			continue // not granted: its next attempt notices
		}
		if here, err := c.main.isHere(); !here && err == nil {
			b.end(c)
			if c.req.Lost != nil {
				go c.req.Lost(c.lostError()) // it may take locks of the client, which calls this backend
			}
			continue
		}
		b.watch()
		if touch {
			c.touch(now)
		}
	}
}
