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
	mu      sync.Mutex // held for a whole attempt: nothing in it waits
	dir     folder
	closed  bool
	held    map[claimKey]*lease
	waiting map[claimKey]*place // claims that wait for their next attempt
	watch   watch
	pruning sync.WaitGroup
}

type claimKey struct{ name, owner string }

func keyOf(req driver.Request) claimKey { return claimKey{req.Name, req.Owner} }

// place is what a waiting claim keeps between its attempts.
type place struct {
	file  *os.File
	next  bool      // it has the file's turnstile: no other waiter overtakes it
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

// begin says whether a call can be carried out. The caller has the mutex, as Abandon does: a claim whose context has ended by then has no effect.
func (b *Backend) begin(ctx context.Context) error {
	if b.closed {
		return fmt.Errorf("%w: the backend is closed", driver.ErrRefused)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return b.dir.prepare()
}

// TryAcquire implements driver.Backend. With req.Queue, a claim that finds the name held keeps the file open, and stands before
// those that come later, until it is granted or abandoned.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	key := keyOf(req)
	if l := b.held[key]; l != nil {
		return l, nil // it was granted before
	}
	p := b.waiting[key]
	if p == nil {
		p = new(place)
	}
	delete(b.waiting, key)
	l, err := b.attempt(req, p)
	switch {
	case err == nil:
		b.held[key] = l
		b.watch.start(b)
		return l, nil
	case req.Queue && hasTurnstile && errors.Is(err, driver.ErrHeld):
		b.waiting[key] = p
	default:
		p.close()
	}
	return nil, b.dir.explain(err)
}

// attempt tries once to lock the file of req. On success the file is the lease's; otherwise it stays in p. The caller has the mutex.
func (b *Backend) attempt(req driver.Request, p *place) (*lease, error) {
	path := filepath.Join(b.dir.path, FileName(req.Name))
	for range maxReplaced {
		if p.file == nil {
			f, err := openLock(path, os.O_CREATE)
			if err != nil {
				return nil, err
			}
			p.file = f
		}
		locked, err := p.try(req.Queue)
		if err != nil {
			return nil, err
		}
		fi, here := isAt(p.file, path)
		switch {
		case !here:
			p.close() // it was removed or replaced before: whoever has locked it, that means nothing
		case !locked:
			held := &driver.HeldError{Poll: minPoll + rand.N(maxPoll-minPoll)}
			if r, _, err := readRecord(p.file); err == nil && r.isOf(0) {
				held.Holder = driver.Status{Owner: r.owner, Token: r.token, Since: r.since}
			}
			return nil, held
		default:
			l, err := b.grant(req, p, path, fi)
			if err != nil {
				_ = unflock(p.file)
			}
			return l, err
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
	if fi.Size() == 0 { // it is new
		b.prune(time.Now())
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

// isAt reports whether f still is the file at path, and what is known of it.
func isAt(f *os.File, path string) (os.FileInfo, bool) {
	mine, err := f.Stat()
	if err != nil {
		return nil, false
	}
	there, err := os.Lstat(path)
	return mine, err == nil && os.SameFile(mine, there)
}

// Abandon implements driver.Backend.
func (b *Backend) Abandon(_ context.Context, req driver.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(req)
	if p := b.waiting[key]; p != nil {
		delete(b.waiting, key)
		p.close()
	}
	if l := b.held[key]; l != nil {
		delete(b.held, key)
		l.unlock(true)
	}
	return nil
}

// Close implements driver.Backend: it unlocks every file that is held, as the end of the process would.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.watch.stop()
	for _, l := range b.held {
		l.unlock(true)
	}
	for _, p := range b.waiting {
		p.close()
	}
	clear(b.held)
	clear(b.waiting)
	b.mu.Unlock()
	b.pruning.Wait()
	return nil
}
