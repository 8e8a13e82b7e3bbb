package file

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lockport/lockport/driver"
)

// lease is a claim whose file is locked while the backend has it in held. Its fields do not change.
type lease struct {
	backend *Backend
	req     driver.Request
	grant   driver.Grant
	main    *lockFile // locked: that of the name, or of one of its permits
	own     *lockFile // has the claim's record: main, or a reader's own file
}

// Grant implements driver.Lease. Until is zero: the claim ends only with the process, or with its file.
func (l *lease) Grant() driver.Grant { return l.grant }

// As implements driver.LeaseAs: it sets a **os.File to the locked file. You can pass that to a child process, which then shares the lock. The lock
// lasts until it is released, or both processes have ended. The file must not be closed or written to.
func (l *lease) As(target any) bool {
	f, ok := target.(**os.File)
	if ok {
		*f = l.main.File
	}
	return ok
}

// Release implements driver.Lease. It ignores ctx, since it never waits.
func (l *lease) Release(context.Context) error {
	b := l.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	here, err := l.main.isHere()
	if !b.end(l) || !here && err == nil {
		return l.lostError()
	}
	return nil
}

// end ends l if it has not ended, and reports that. The caller holds mu.
func (b *Backend) end(l *lease) bool {
	if b.held[l.req.Owner] != l {
		return false
	}
	delete(b.held, l.req.Owner)
	l.own.free()
	if l.main != l.own {
		l.main.close()
	}
	return true
}

func (l *lease) lostError() error {
	return fmt.Errorf("%w: the lock file %s was removed or replaced", driver.ErrLost, l.main.Name())
}

// touch gives the lease's files the time now, so that they look used.
func (l *lease) touch(now time.Time) {
	for _, path := range []string{l.main.Name(), l.own.Name(), l.backend.path(gateName(l.req.Name))} { // there may be no gate
		_ = os.Chtimes(path, now, now)
	}
}
