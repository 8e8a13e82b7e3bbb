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

// sessionTTL is stated by the drivers. It is the smallest that an etcd grants at its defaults.
const sessionTTL = 2 * time.Second

// session is a connection to a server, or what else the server remembers a client by.
type session struct {
	// lock tries to lock a name; ErrHeld if somebody else has it. unlock unlocks it as the library does, also if lock returned an error.
	lock func(ctx context.Context, name string) (unlock func(context.Context) error, token uint64, err error)
	// end ends the session, and with it all that it has locked. It can be called again.
	end func(ctx context.Context) error
}

// sessions is a driver with a session for each claim, or one that all claims share.
type sessions struct {
	caps   driver.Capabilities
	open   func(ctx context.Context) (session, error)
	close  func() error // after all sessions have ended
	shared bool

	mu     sync.Mutex
	one    *session          // the shared one
	claims map[string]*claim // by owner: those that may be held
}

// Capabilities implements driver.Backend.
func (b *sessions) Capabilities() driver.Capabilities { return b.caps }

// begin begins a claim: its session is there.
func (b *sessions) begin(ctx context.Context, owner string) (*claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.one
	if s == nil {
		opened, err := b.open(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		s = &opened
		if b.shared {
			b.one = s
		}
	}
	if b.claims == nil {
		b.claims = make(map[string]*claim)
	}
	c := &claim{b: b, session: s, owner: owner}
	b.claims[owner] = c
	return c, nil
}

// TryAcquire implements driver.Backend.
func (b *sessions) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.begin(ctx, req.Owner)
	if err != nil {
		return nil, err
	}
	c.unlock, c.grant.Token, err = c.session.lock(ctx, Digest(req.Name))
	switch {
	case errors.Is(err, driver.ErrHeld):
		if !b.shared {
			_ = c.session.end(ctx)
		}
		return nil, driver.ErrHeld
	case err != nil:
		return nil, unknown(err)
	}
	return c, nil
}

// Abandon implements driver.Backend. It ends the claim's session, or, where others use that too, relies on unlock.
func (b *sessions) Abandon(ctx context.Context, req driver.Request) error {
	b.mu.Lock()
	c := b.claims[req.Owner]
	b.mu.Unlock()
	switch {
	case c == nil:
		return nil
	case b.shared && c.unlock != nil:
		return unknown(c.unlock(ctx))
	case b.shared:
		return nil
	}
	return unknown(c.session.end(ctx))
}

// Close implements driver.Backend.
func (b *sessions) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTTL)
	defer cancel()
	for _, c := range b.claims {
		_ = c.session.end(ctx)
	}
	return b.close()
}

// claim is a claim, and the lease of one that was granted.
type claim struct {
	b       *sessions
	session *session
	owner   string
	grant   driver.Grant
	unlock  func(context.Context) error

	mu   sync.Mutex
	over bool // it is certain that the claim was released
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Renew implements driver.Lease. A claim ends with its session.
func (c *claim) Renew(context.Context) (time.Time, error) {
	return time.Time{}, fmt.Errorf("%w: this claim is not renewed", driver.ErrUnknown)
}

// Release implements driver.Lease.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	err := c.unlock(ctx)
	if err == nil && !c.b.shared {
		err = c.session.end(ctx)
	}
	c.over = err == nil
	return unknown(err)
}

// unknown is err, of a request that may have had an effect.
func unknown(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknown, err)
}

// Digest is what the drivers call a name at their servers: the 64 hexadecimal digits of its SHA-256.
func Digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}
