package libraries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// lock is a driver each step of which can be replaced, so that what a bug changes is all that it changes.
type lock struct {
	caps driver.Capabilities
	// take claims. Its claim has no lock yet.
	take func(ctx context.Context, req driver.Request) (*claim, error)
	// renew and release are about a claim that was granted.
	renew   func(ctx context.Context, c *claim) (time.Time, error)
	release func(ctx context.Context, c *claim) error
	// abandon finds the claim by its name and owner.
	abandon func(ctx context.Context, req driver.Request) error
	close   func() error
}

// Capabilities implements driver.Backend.
func (l *lock) Capabilities() driver.Capabilities { return l.caps }

// TryAcquire implements driver.Backend.
func (l *lock) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := l.take(ctx, req)
	if err != nil {
		return nil, err
	}
	c.lock, c.req = l, req
	return c, nil
}

// Abandon implements driver.Backend.
func (l *lock) Abandon(ctx context.Context, req driver.Request) error { return l.abandon(ctx, req) }

// Close implements driver.Backend.
func (l *lock) Close() error { return l.close() }

// claim is a granted claim.
type claim struct {
	lock  *lock
	req   driver.Request
	grant driver.Grant
	own   any // what the system gave for it

	mu    sync.Mutex
	over  bool // it is certain that the claim has ended,
	ended error
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Renew implements driver.Lease.
func (c *claim) Renew(ctx context.Context) (time.Time, error) { return c.lock.renew(ctx, c) }

// Release implements driver.Lease.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return c.ended
	}
	err := c.lock.release(ctx, c)
	if err == nil || errors.Is(err, driver.ErrLost) {
		c.over, c.ended = true, err
	}
	return err
}

// unknown is err, of a request that may have had an effect.
func unknown(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknown, err)
}

// unavailable is err, of a claim that is said to have had no effect.
func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }

// never is the renewal of a claim that ends with its session.
func never(context.Context, *claim) (time.Time, error) {
	return time.Time{}, fmt.Errorf("%w: this claim is not renewed", driver.ErrUnknown)
}

// Digest is what the drivers call a name at their servers: the 64 hexadecimal digits of its SHA-256.
func Digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// guid is the random part of an owner id.
func guid(owner string) string { return owner[:32] }

// table is what a session that many claims share needs beside its server, which lets the same session in again: who has what.
type table struct {
	mu     sync.Mutex
	owners map[string]string
}

// enter says whether nobody in this process has name, and notes owner.
func (t *table) enter(name, owner string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.owners[name]; taken {
		return false
	}
	if t.owners == nil {
		t.owners = make(map[string]string)
	}
	t.owners[name] = owner
	return true
}

// has says whether owner has name.
func (t *table) has(name, owner string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owners[name] == owner
}

// leave forgets that owner has name.
func (t *table) leave(name, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owners[name] == owner {
		delete(t.owners, name)
	}
}
