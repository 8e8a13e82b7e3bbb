package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

const (
	// A waiter looks again after a random time between these: so soon is a dead or released lock taken over.
	minPoll = 10 * time.Millisecond
	maxPoll = 30 * time.Millisecond
	// overtake is how often a waiter that is not next tries nevertheless, in case the one that is next has been stopped.
	overtake = 250 * time.Millisecond
	// maxReplaced bounds how often in a row a file may turn out to have been replaced between its opening and its locking.
	maxReplaced = 20
)

// Backend claims names with flock(2) on files in one folder. It implements driver.Inspector and driver.Checker too. All methods
// may be called concurrently.
type Backend struct {
	dir folder

	mu      sync.Mutex
	closed  bool
	held    map[claimKey]*lease
	waiting map[claimKey]*place        // claims that wait for their next attempt
	busy    map[claimKey]chan struct{} // attempts under way; closed at their end
	watch   watch
}

type claimKey struct{ name, owner string }

func keyOf(req driver.Request) claimKey { return claimKey{req.Name, req.Owner} }

// place is what a waiting claim keeps between its attempts.
type place struct {
	file  *os.File
	next  bool      // it has the file's turnstile: nobody of those who wait overtakes it
	tried time.Time // when it last tried to lock the file, or first found itself behind another
}

var _ interface {
	driver.Backend
	driver.Inspector
	driver.Checker
} = (*Backend)(nil)

// capabilities are those of every Backend.
var capabilities = driver.Capabilities{
	Backend:       "file",
	Ends:          driver.EndsProcess,
	Token:         driver.TokenFailover,
	Fair:          driver.FairNone,
	Wake:          driver.WakePoll,
	Failover:      driver.FailoverNone,
	Prompt:        true,
	Queue:         hasTurnstile,
	RemovalNotice: func(time.Duration) time.Duration { return 2 * watchPeriod },
}

// Dir is the folder of the lock files.
func (b *Backend) Dir() string { return b.dir.path }

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// TryAcquire implements driver.Backend. With req.Queue, a claim that finds the name held keeps the file open, and stands before
// those that come later, until it is granted or abandoned.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	p, l, err := b.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	if l != nil {
		return l, nil // it was granted before
	}
	err = b.dir.prepare()
	if err == nil {
		l, err = b.attempt(req, p)
	}
	if err := b.finish(ctx, req, p, l, err); err != nil {
		return nil, err
	}
	return l, nil
}

// begin notes that an attempt is under way, and returns what the claim has kept since its last one, or its lease.
func (b *Backend) begin(ctx context.Context, req driver.Request) (*place, *lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.usable(ctx); err != nil {
		return nil, nil, err
	}
	key := keyOf(req)
	if l := b.held[key]; l != nil {
		return nil, l, nil
	}
	p := b.waiting[key]
	delete(b.waiting, key)
	if p == nil {
		p = new(place)
	}
	b.busy[key] = make(chan struct{})
	return p, nil, nil
}

// usable says why a call must not do anything. The caller has the mutex.
func (b *Backend) usable(ctx context.Context) error {
	if b.closed {
		return fmt.Errorf("%w: the backend is closed", driver.ErrRefused)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return nil
}

// finish records the outcome of an attempt. The context is looked at once more, under the mutex that Abandon takes: a claim
// that is given up meanwhile leaves nothing.
func (b *Backend) finish(ctx context.Context, req driver.Request, p *place, l *lease, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(req)
	defer close(b.busy[key])
	delete(b.busy, key)
	if over := b.usable(ctx); over != nil {
		if l != nil {
			l.unlock(true)
		}
		p.close()
		return over
	}
	if l != nil {
		b.held[key] = l
		b.watch.start(b)
		return nil
	}
	if req.Queue && hasTurnstile && errors.Is(err, driver.ErrHeld) {
		b.waiting[key] = p
	} else {
		p.close()
	}
	return err
}

// attempt tries once to lock the file of req. On success the file is the lease's; otherwise it stays in p.
func (b *Backend) attempt(req driver.Request, p *place) (*lease, error) {
	path := filepath.Join(b.dir.path, FileName(req.Name))
	for range maxReplaced {
		if p.file == nil {
			f, err := openLock(path)
			if err != nil {
				return nil, b.dir.explain(err)
			}
			p.file = f
		}
		locked, err := p.try(req.Queue)
		if err != nil {
			return nil, b.dir.explain(err)
		}
		fi, here := isAt(p.file, path)
		switch {
		case !here:
			p.close() // it was removed or replaced before: whoever has locked it, that means nothing
		case !locked:
			return nil, &driver.HeldError{Poll: minPoll + rand.N(maxPoll-minPoll), Holder: holderIn(p.file)}
		default:
			l, err := b.grant(req, p, path, fi)
			if err != nil {
				_ = unflock(p.file)
				return nil, b.dir.explain(err)
			}
			return l, nil
		}
	}
	return nil, fmt.Errorf("%w: the lock file %s is being replaced again and again", driver.ErrUnavailable, path)
}

// try locks p's file, unless p is to wait and somebody else is next.
func (p *place) try(queue bool) (bool, error) {
	now := time.Now()
	if queue && !p.next {
		if p.tried.IsZero() {
			p.tried = now
		}
		if now.Sub(p.tried) < overtake && isTurnstileTaken(p.file) {
			return false, nil
		}
	}
	p.tried = now
	locked, err := tryFlock(p.file)
	if err == nil && !locked && queue && !p.next {
		p.next = takeTurnstile(p.file)
	}
	return locked, err
}

// grant makes the lease of p's file, which is locked and of which fi is known, and takes the file from p.
func (b *Backend) grant(req driver.Request, p *place, path string, fi os.FileInfo) (*lease, error) {
	r, slot, err := draw(p.file, fi, req, time.Now())
	if err != nil {
		return nil, err
	}
	if p.next {
		leaveTurnstile(p.file)
	}
	l := &lease{backend: b, req: req, path: path, file: p.file, info: fi, record: r, slot: slot}
	l.grant = driver.Grant{Token: r.token, Contended: isTurnstileTaken(l.file)}
	*p = place{}
	return l, nil
}

// close closes p's file, if there is one, which gives up p's turn.
func (p *place) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
	*p = place{tried: p.tried}
}

// isAt says that f still is the file at path, and what is known of it.
func isAt(f *os.File, path string) (os.FileInfo, bool) {
	mine, err := f.Stat()
	if err != nil {
		return nil, false
	}
	there, err := os.Lstat(path)
	return mine, err == nil && os.SameFile(mine, there)
}

// Abandon implements driver.Backend.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	key := keyOf(req)
	for {
		b.mu.Lock()
		under := b.busy[key]
		if under == nil {
			break
		}
		b.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		}
	}
	p, l := b.waiting[key], b.held[key]
	delete(b.waiting, key)
	delete(b.held, key)
	if l != nil {
		l.state = released
	}
	b.mu.Unlock()
	if p != nil {
		p.close()
	}
	if l != nil {
		l.unlock(true)
	}
	return nil
}

// Close implements driver.Backend: it unlocks every file that is held, as the end of the process would.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.watch.stop()
	for _, l := range b.held {
		l.state = released
		l.unlock(true)
	}
	for _, p := range b.waiting {
		p.close()
	}
	clear(b.held)
	clear(b.waiting)
	return nil
}
